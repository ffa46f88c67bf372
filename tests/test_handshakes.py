"""Connections in their TLS handshake: counted, bounded, ended, and no others kept out."""

import asyncio
import contextlib
import ssl

import pytest
from certs import Authority
from structlog.testing import capture_logs

from gossamer import handshakes, network
from gossamer.network import SystemNetwork

pytestmark = pytest.mark.real


class Echo(asyncio.Protocol):
    made = 0

    def connection_made(self, transport):
        Echo.made += 1
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


@pytest.fixture
def context(tmp_path):
    authority = Authority(tmp_path)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*authority.issue("a", "127.0.0.1"))
    trusting = ssl.create_default_context(cafile=authority.file)
    return made, trusting


async def echoed(port, trusting, source="127.0.0.1"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, local_addr=(source, 0))
    writer.write(b"hello")
    got = await reader.readexactly(5)
    await ended(writer)
    return got


async def ended(*writers):
    for writer in writers:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def lost(reader):
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""


async def test_handshakes_that_do_not_end_are_bounded_by_address_and_end_in_time(context, monkeypatch):
    monkeypatch.setattr(handshakes, "MAX_HANDSHAKES_EACH", 3)
    monkeypatch.setattr(network, "HANDSHAKE_LIMIT", 1.0)
    server, trusting = context
    Echo.made = 0
    listener = await SystemNetwork().listen(Echo, ("127.0.0.1", 0), tls=server)
    port = listener.address[1]
    with capture_logs() as logs:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        silent[0][1].write(b"\x16\x03\x01\x02")
        async with asyncio.timeout(20):
            over, beyond = await asyncio.open_connection("127.0.0.1", port)
            await lost(over)
            await ended(beyond)
            # Another address has its own places meanwhile.
            assert await echoed(port, trusting, "127.0.0.2") == b"hello"
            assert Echo.made == 1
            for reader, writer in silent:
                await lost(reader)
                await ended(writer)
            assert await echoed(port, trusting) == b"hello"
    assert [line["event"] for line in logs].count("handshakes_turned_away") == 1
    listener.close()


async def test_a_handshake_that_is_over_holds_no_place(context, monkeypatch):
    monkeypatch.setattr(handshakes, "MAX_HANDSHAKES", 1)
    server, trusting = context
    listener = await SystemNetwork().listen(Echo, ("127.0.0.1", 0), tls=server)
    port = listener.address[1]
    async with asyncio.timeout(20):
        open_ones = [await asyncio.open_connection("127.0.0.1", port, ssl=trusting) for _ in range(3)]
        assert await echoed(port, trusting) == b"hello"
    await ended(*(writer for _, writer in open_ones))
    listener.close()


async def test_a_listener_that_closes_ends_its_handshakes(context):
    server, _ = context
    listener = await SystemNetwork().listen(Echo, ("127.0.0.1", 0), tls=server)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.address[1])
    await asyncio.sleep(0)
    async with asyncio.timeout(8):
        while not listener._handshakes.places:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)
        listener.close()
        await lost(reader)
        await ended(writer)
