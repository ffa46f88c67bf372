"""Clients behind a balancer: the PROXY header says who they are, if the balancer is believed."""

import asyncio
import contextlib
import socket
import ssl

import pytest
import uvloop

from gossamer.config import ListenerConfig
from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.connection.limits import is_within
from mqtt.listening import broker_with, shown, tls_section, until

pytestmark = pytest.mark.real


V2 = b"\r\n\r\n\0\r\nQUIT\n"
V2_TCP4 = V2 + b"\x21\x11\0\x0f" + bytes((203, 0, 113, 9, 10, 0, 0, 1)) + b"\x10\x92\x07\x5b" + b"\x04\0\0"


@pytest.mark.parametrize(
    ("header", "peer"),
    [
        (b"PROXY TCP4 203.0.113.9 10.0.0.1 4242 1883\r\n", "203.0.113.9:4242"),
        (b"PROXY TCP6 2001:db8::9 ::1 4242 1883\r\n", "[2001:db8::9]:4242"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (V2_TCP4, "203.0.113.9:4242"),
        (V2 + b"\x21\x21\0\x24" + bytes(15) + b"\x09" + bytes(16) + b"\x10\x92\x07\x5b", "[::9]:4242"),
        (V2 + b"\x20\0\0\0", "127.0.0.1"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 1000])
async def test_the_proxy_header_says_who_the_client_is(header, peer, pieces):
    async with broker_with({"proxy_protocol": True}) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:0"])
        stream = header + encode(p.Connect(client_id="c"), 4)
        size = max(1, len(stream) // pieces)
        for at in range(0, len(stream), size):
            writer.write(stream[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.readexactly(4)) == b"\x20\x02\0\0"
        assert broker.client(broker.sessions["c"]).peer.startswith(peer)
        writer.close()


@pytest.mark.parametrize(
    "stream",
    [
        encode(p.Connect(client_id="c"), 4),
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4242\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP4 " + b"x" * 200,
        V2 + b"\x11\x11\0\x0c" + bytes(12),
        V2 + b"\x21\x11\xff\xff",
        V2 + b"\x21\x11\0\x04" + bytes(4),
    ],
)
async def test_without_a_proper_proxy_header_nobody_comes_in(stream):
    async with broker_with({"proxy_protocol": True}) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports["tcp:0"])
        writer.write(stream)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        await until(lambda: not broker.channels)
        assert broker.refused["tcp:0", "no_proxy_header"] == 1
        writer.close()


GREETING = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def through_proxy(port, ca, *, kind, header, size):
    """A client behind a balancer that says so in pieces of ``size`` bytes; blocks."""
    context = ssl.create_default_context(cafile=ca.file)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    connect = encode(p.Connect(client_id="behind"), 4)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def talk(step):
            while True:
                try:
                    found = step()
                except ssl.SSLWantReadError:
                    found = None
                raw.sendall(outgoing.read())
                if found is not None:
                    return found
                data = raw.recv(65536)
                if not data:
                    raise ConnectionError("closed")
                incoming.write(data)

        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        # The header and the first words of TLS in one piece, or every byte alone.
        stream = header + outgoing.read()
        for at in range(0, len(stream), size):
            raw.sendall(stream[at : at + size])
        talk(lambda: tls.do_handshake() or True)
        if kind == "wss":
            frame = bytes((0x82, 0x80 | len(connect), 0, 0, 0, 0)) + connect
            talk(lambda: tls.write(GREETING + frame))
            answer = b""
            while not answer.endswith(b"\x82\x04\x20\x02\0\0"):
                answer += talk(lambda: tls.read(4096))
        else:
            talk(lambda: tls.write(connect))
            assert talk(lambda: tls.read(4)) == b"\x20\x02\0\0"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("kind", ["tls", "wss"])
@pytest.mark.parametrize("header", [b"PROXY TCP4 203.0.113.9 10.0.0.1 4242 1883\r\n", V2_TCP4])
def test_the_proxy_header_comes_before_tls(ca, kind, header, loop):
    async def body():
        peers = []
        async with broker_with({"type": kind, "proxy_protocol": True, "tls": tls_section(ca)}) as broker:
            broker.admission.on_return = lambda name: peers.append(broker.client(broker.sessions[name]).peer)
            port = broker.ports[f"{kind}:0"]
            for size in (1, 10, 100_000):
                await asyncio.to_thread(through, port, size)
            await until(lambda: not broker.channels)
            assert peers == ["203.0.113.9:4242"] * 3
            # Without a header TLS is no way in either.
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await shown(port, "localhost", ca)
            assert broker.refused[f"{kind}:0", "no_proxy_header"] == 1

    def through(port, size):
        through_proxy(port, ca, kind=kind, header=header, size=size)

    factory = uvloop.new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(body())


@pytest.mark.parametrize("kind", ["tcp", "ws", "tls"])
async def test_only_balancers_are_believed(ca, kind):
    section = {"tls": tls_section(ca)} if kind == "tls" else {}
    listener = {"type": kind, "proxy_protocol": True, "proxy_sources": ["192.0.2.0/24"], **section}
    async with broker_with(listener) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports[f"{kind}:0"])
        writer.write(b"PROXY TCP4 203.0.113.9 10.0.0.1 4242 1883\r\n")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        assert broker.access.decisions["accept", "untrusted_proxy", "deny"] == 1
        assert not broker.channels
        writer.close()


@pytest.mark.parametrize(
    ("peer", "within"),
    [
        (("10.1.2.3", 5), True),
        (("11.1.2.3", 5), False),
        (("::ffff:10.1.2.3", 5, 0, 0), True),
        (("2001:db8::1", 5, 0, 0), True),
        (("fe80::1%eth0", 5, 0, 2), False),
        ("", False),
        (None, False),
    ],
)
def test_sources_are_networks_of_both_families(peer, within):
    config = ListenerConfig(proxy_protocol=True, proxy_sources="10.0.0.0/8, 2001:db8::/32")
    assert is_within(peer, config.proxy_sources) is within
