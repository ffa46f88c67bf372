"""Links over TLS: who is let in, whose certificate is whose, and certificates that are renewed."""

import asyncio
import ssl
from dataclasses import replace
from types import SimpleNamespace

import pytest
from certs import Authority
from structlog.testing import capture_logs

from gossamer.distribution import GrpcTransport, StreamTransport
from gossamer.distribution.transport.certificates import Names
from gossamer.distribution.transport.grpc_tls import ServerTls
from gossamer.files import FileError
from gossamer.network import SystemNetwork

from .conftest import Node, certificates, linked

A, B = "a@127.0.0.1", "b@127.0.0.1"


def stream_transport(certificates):
    return StreamTransport(SystemNetwork(), certificates=certificates)


def grpc_transport(certificates):
    return GrpcTransport(certificates=certificates)


def relayed_transport(certificates):
    """As a drill has it: the certificate is still that of the node behind the relay."""
    return GrpcTransport(certificates=certificates, network=SystemNetwork())


every = pytest.mark.parametrize("make", [grpc_transport, relayed_transport, stream_transport])
both = pytest.mark.parametrize("make", [grpc_transport, stream_transport])


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A handshake that is not over counts as failed sooner."""
    monkeypatch.setattr("gossamer.distribution.transport.certificates.HANDSHAKE_TIMEOUT", 0.5)


class Nodes:
    """Nodes that are stopped at the end; what they report of the ends of their channels."""

    def __init__(self):
        self.nodes = []

    async def start(self, name, transport, **options):
        node = await Node(name, transport, **options).start()
        self.nodes.append(node)
        return node


@pytest.fixture
async def nodes():
    made = Nodes()
    yield made
    for node in made.nodes:
        await node.runtime.stop()


async def logged(logs, event, **facts):
    """Wait for a log line; return it."""
    async with asyncio.timeout(15):
        while True:
            for line in logs:
                if line["event"] == event and facts.items() <= line.items():
                    return line
            await asyncio.sleep(0.01)


@every
async def test_nodes_meet_over_tls(make, authority, nodes):
    a, b = await linked(*[await nodes.start(name, make(certificates(authority, name))) for name in (A, B)])
    a.distribution.send(B, "data", b"private")
    await b.until(lambda: [frame.payload for frame in b.frames] == [b"private"])


@both
async def test_a_node_of_another_authority_is_refused_and_both_say_so(make, authority, nodes, tmp_path):
    (tmp_path / "others").mkdir()
    others = Authority(tmp_path / "others")
    a = await nodes.start(A, make(certificates(authority, A)))
    # It believes a's authority, so that it is a who refuses.
    b = await nodes.start(B, make(certificates(others, B, ca=authority)))
    with capture_logs() as logs:
        b.connect(a)
        called = await logged(logs, "tls_handshake_refused")
        calling = await logged(logs, "link_without_tls", peer=A)
    assert str(authority.file) in called["expected"]
    assert str(tmp_path / "others" / "b.pem") in calling["error"]
    assert not a.distribution.nodes()


@both
async def test_a_called_node_of_another_authority_is_not_believed(make, authority, nodes, tmp_path):
    (tmp_path / "others").mkdir()
    others = Authority(tmp_path / "others")
    a = await nodes.start(A, make(certificates(authority, A)))
    b = await nodes.start(B, make(certificates(others, B)))
    with capture_logs() as logs:
        a.connect(b)
        calling = await logged(logs, "link_without_tls", peer=B)
        await logged(logs, "tls_handshake_refused")
    assert f"of an authority in {authority.file}" in calling["error"]


@both
async def test_a_node_without_a_certificate_is_refused_and_both_say_so(make, authority, nodes):
    a = await nodes.start(A, make(certificates(authority, A)))
    bare = certificates(authority, B)
    b = await nodes.start(B, make(bare))
    context = ssl.create_default_context(cafile=authority.file)
    # It listens with a certificate, and calls without one, whatever its configuration wants.
    bare.identity = replace(bare.identity, certificate=None, key=None, context=context)
    with capture_logs() as logs:
        b.connect(a)
        await logged(logs, "tls_handshake_refused")
        await logged(logs, "link_without_tls", peer=A)


@both
async def test_a_plain_node_gets_nowhere_with_one_that_wants_tls(make, authority, nodes):
    a = await nodes.start(A, make(certificates(authority, A)))
    b = await nodes.start(B, make(None))
    with capture_logs() as logs:
        b.connect(a)
        await logged(logs, "tls_handshake_refused")
        a.connect(b)
        line = await logged(logs, "link_without_tls", peer=B)
    assert "set on all nodes of a cluster or on none" in line["error"]


@both
async def test_a_caller_is_refused_in_words_if_its_certificate_is_anothers(make, authority, nodes):
    """Its authority is known, and it has the cookie."""
    a = await nodes.start(A, make(certificates(authority, A)))
    b = await nodes.start(B, make(certificates(authority, "", "10.9.9.9")))
    with capture_logs() as logs:
        b.connect(a)
        calling = await logged(logs, "handshake_failed", peer=A)
        called = await logged(logs, "handshake_refused", caller=B)
    for line in (calling, called):
        assert "(certificate): expected one that names 127.0.0.1" in line["error"]
        assert "got a certificate for 10.9.9.9" in line["error"]


@both
async def test_a_called_node_is_refused_if_its_certificate_names_another_host(make, authority, nodes):
    a = await nodes.start(A, make(certificates(authority, A)))
    b = await nodes.start(B, make(certificates(authority, "", "10.9.9.9")))
    with capture_logs() as logs:
        a.connect(b)
        line = await logged(logs, "link_without_tls", peer=B)
    assert "expected one that names 127.0.0.1" in line["error"]


@both
async def test_nodes_of_one_host_are_told_apart_by_whole_names(make, authority, nodes):
    a = await nodes.start(A, make(certificates(authority, A, "127.0.0.1", A)))
    b = await nodes.start(B, make(certificates(authority, "", "127.0.0.1", "c@127.0.0.1")))
    with capture_logs() as logs:
        a.connect(b)
        b.connect(a)
        line = await logged(logs, "handshake_refused", caller=B)
    assert f"if it has e-mail names, {B}" in line["error"]
    assert not a.distribution.nodes()
    assert not b.distribution.nodes()


@both
async def test_renewed_certificates_drop_no_link_and_count_for_new_ones(make, authority, nodes, tmp_path):
    """The authority changes too: what is new would not be believed by what is old."""
    old = [certificates(authority, name) for name in (A, B)]
    a, b = await linked(*[await nodes.start(name, make(own)) for name, own in zip((A, B), old, strict=True)])
    before = a.events + b.events
    renewed = Authority(tmp_path)
    for name, own in zip((A, B), old, strict=True):
        renewed.issue(name.partition("@")[0], "127.0.0.1")
        await asyncio.to_thread(own.load)
    a.distribution.send(B, "data", b"after")
    await b.until(lambda: [frame.payload for frame in b.frames] == [b"after"])
    assert a.events + b.events == before
    c = await nodes.start("c@127.0.0.1", make(certificates(renewed, "c@127.0.0.1")))
    await linked(c, a)
    await a.until(lambda: set(a.distribution.nodes()) == {B, "c@127.0.0.1"})


async def test_no_version_before_1_3_is_spoken(authority, nodes):
    a = await nodes.start(A, stream_transport(certificates(authority, A)))
    context = ssl.create_default_context(cafile=authority.file)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*authority.issue("old", "127.0.0.1"))
    with capture_logs() as logs:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await asyncio.open_connection(*a.distribution.address, ssl=context)
        await logged(logs, "tls_handshake_refused", error="UNSUPPORTED_PROTOCOL")


async def test_a_caller_over_grpc_that_speaks_an_older_version_is_not_served(authority):
    server = ServerTls(certificates(authority, A))
    context = SimpleNamespace(auth_context=lambda: {"ssl_tls_version": [b"TLSv1.2"]})
    with capture_logs() as logs:
        assert server.opened(context) is None
    assert logs[0]["error"] == "the caller speaks TLSv1.2"


@both
async def test_a_relay_that_ends_tls_is_found_out_though_both_ends_know_the_cookie(make, authority, nodes):
    """What the called node sees is then not the certificate of the caller."""
    a = await nodes.start(A, make(certificates(authority, A)))
    own = certificates(authority, B)
    own.identity = replace(own.identity, binding=b"of another certificate")
    b = await nodes.start(B, make(own))
    with capture_logs() as logs:
        b.connect(a)
        line = await logged(logs, "handshake_refused", caller=B)
    assert "(cookie)" in line["error"]


def test_a_certificate_belongs_to_nodes_of_its_hosts_unless_it_has_whole_names():
    names = Names(("10.0.0.1", "*.example", "fe80::1"), ())
    assert all(names.fit(name) for name in ("n@10.0.0.1", "n@A.example", "n@[fe80:0::1]"))
    assert not any(names.fit(name) for name in ("n@10.0.0.2", "n@example", "n@a.b.example"))
    whole = Names(("10.0.0.1",), ("n@10.0.0.1",))
    assert whole.fit("n@10.0.0.1")
    assert not whole.fit("m@10.0.0.1")


def test_a_file_that_cannot_be_used_is_named_and_the_last_ones_stay(authority):
    own = certificates(authority, A)
    before = own.identity
    own_files = {file.name: file for file in own.files()}
    own_files["a.pem"].write_text("half a file")
    with pytest.raises(FileError, match=r"a\.pem.*expected PEM, and a key"):
        own.load()
    authority.issue("a", "10.0.0.9")
    with pytest.raises(FileError, match=r"it is a certificate for 10\.0\.0\.9; expected one that names 127"):
        own.load()
    assert own.identity is before
