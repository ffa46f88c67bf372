"""Links over TLS, and a handshake tied to the channel below it."""

import asyncio
import datetime
import ipaddress
import ssl

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gossamer.distribution import Distribution, GrpcTransport, NodeUp, StreamTransport
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime, Supervisor


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    """Key and certificate files for 127.0.0.1, and the certificate's DER form."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(secret)
    (folder / "cert.pem").write_bytes(pem)
    return folder, secret, pem, certificate.public_bytes(serialization.Encoding.DER)


def relayed_transport(identity):
    """As a drill has it: the certificate is still that of the node behind the relay."""
    return grpc_transport(identity, network=SystemNetwork())


def grpc_transport(identity, **options):
    _, secret, pem, der = identity
    return GrpcTransport(
        **options,
        server_credentials=grpc.ssl_server_credentials([(secret, pem)], pem, True),
        channel_credentials=grpc.ssl_channel_credentials(pem, secret, pem),
        binding=der,
    )


def stream_transport(identity):
    folder, _, _, der = identity
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    client = ssl.create_default_context(cafile=folder / "cert.pem")
    return StreamTransport(SystemNetwork(), server_tls=server, client_tls=client, certificate=der)


async def start(name, transport):
    runtime = Runtime(name, 1)
    node = Distribution(runtime, transport, cookie="secret", address=("127.0.0.1", 0))
    await runtime.start(Supervisor, [node.child_spec()])
    return node


@pytest.mark.parametrize("make", [grpc_transport, relayed_transport, stream_transport])
async def test_nodes_meet_over_tls(make, identity):
    a, b = await start("a", make(identity)), await start("b", make(identity))
    got = asyncio.get_running_loop().create_future()
    b.on_frame("data", lambda frame: got.set_result(frame.payload))
    up = asyncio.Event()
    a.subscribe(lambda event: up.set() if event == NodeUp("b", 1) else None)
    a.connect("b", 1, b.address)
    b.connect("a", 1, a.address)
    async with asyncio.timeout(10):
        await up.wait()
        a.send("b", "data", b"private")
        assert await got == b"private"
    await a.runtime.stop()
    await b.runtime.stop()


async def test_a_relay_with_another_certificate_is_found_out(identity):
    """Both ends know the cookie, but not the same channel."""
    a = await start("a", stream_transport(identity))
    folder, _, _, _ = identity
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    client = ssl.create_default_context(cafile=folder / "cert.pem")
    other = StreamTransport(SystemNetwork(), server_tls=server, client_tls=client, certificate=b"another")
    b = await start("b", other)
    refused = asyncio.get_running_loop().create_future()
    away = b.door.turned_away
    b.door.turned_away = lambda *seen: (away(*seen), refused.done() or refused.set_result(seen[-1]))
    a.connect("b", 1, b.address)
    async with asyncio.timeout(10):
        assert (await refused).code == "cookie"
    await a.runtime.stop()
    await b.runtime.stop()
