"""Links over TLS, and a handshake tied to the channel below it."""

import asyncio
import ssl

import grpc
import pytest
from certs import Authority

from gossamer.distribution import GrpcTransport, StreamTransport
from gossamer.network import SystemNetwork

from .conftest import Node, linked


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    """Files of the authority, of a certificate for 127.0.0.1 and its key, and the certificate's DER form."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    cert, key = authority.issue("node", "127.0.0.1")
    return authority.file, cert, key, ssl.PEM_cert_to_DER_cert(cert.read_text())


def relayed_transport(identity):
    """As a drill has it: the certificate is still that of the node behind the relay."""
    return grpc_transport(identity, network=SystemNetwork())


def grpc_transport(identity, **options):
    *files, der = identity
    ca, cert, key = [file.read_bytes() for file in files]
    return GrpcTransport(
        **options,
        server_credentials=grpc.ssl_server_credentials([(key, cert)], ca, True),
        channel_credentials=grpc.ssl_channel_credentials(ca, key, cert),
        binding=der,
    )


def stream_transport(identity, certificate=None):
    ca, cert, key, der = identity
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    client = ssl.create_default_context(cafile=ca)
    return StreamTransport(
        SystemNetwork(), server_tls=server, client_tls=client, certificate=certificate or der
    )


@pytest.mark.parametrize("make", [grpc_transport, relayed_transport, stream_transport])
async def test_nodes_meet_over_tls(make, identity):
    a, b = await linked(*[await Node(name, make(identity)).start() for name in "ab"])
    a.distribution.send("b", "data", b"private")
    await b.until(lambda: [frame.payload for frame in b.frames] == [b"private"])
    await a.runtime.stop()
    await b.runtime.stop()


async def test_a_relay_with_another_certificate_is_found_out(identity):
    """Both ends know the cookie, but not the same channel."""
    a = await Node("a", stream_transport(identity)).start()
    b = await Node("b", stream_transport(identity, b"another")).start()
    refused = asyncio.get_running_loop().create_future()
    acceptor = b.distribution.acceptor
    away = acceptor.log_ending
    acceptor.log_ending = lambda *seen: (away(*seen), refused.done() or refused.set_result(seen[-1]))
    a.connect(b)
    async with asyncio.timeout(10):
        assert (await refused).code == "cookie"
    await a.runtime.stop()
    await b.runtime.stop()
