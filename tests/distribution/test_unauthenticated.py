"""Callers that have not proved who they are: what they can hold, and for how long."""

import asyncio
from contextlib import suppress

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

import gossamer.distribution.transport.grpc as grpc_transport
from gossamer.distribution import GrpcTransport
from gossamer.distribution.links.admission import MAX_UNAUTHENTICATED_EACH
from gossamer.distribution.transport.grpc import PIECE, address_of
from gossamer.distribution.transport.transport import show
from gossamer.distribution.wire import HANDSHAKE_LIMIT

from .conftest import Node, linked


class Silent(asyncio.Protocol):
    """A connection that says nothing."""

    def __init__(self):
        self.lost = asyncio.Event()

    def connection_lost(self, exc):
        self.lost.set()


async def test_one_address_keeps_no_other_out(net):
    """More silent connections of one host than it has places; a member of another host comes in meanwhile."""
    a = await net.start("a")
    stranger = net.sim.host("stranger")
    silent = [Silent() for _ in range(MAX_UNAUTHENTICATED_EACH + 10)]
    with capture_logs() as logs:
        for protocol in silent:
            await stranger.connect(lambda protocol=protocol: protocol, ("a", 4370))
        await asyncio.sleep(1)
    assert sum(protocol.lost.is_set() for protocol in silent) == 10
    assert [line["event"] for line in logs].count("callers_turned_away") == 1
    b = await net.start("b")
    net.connect(a, b)
    await asyncio.sleep(1)
    assert a.nodes() == ["b"]
    await asyncio.sleep(10)
    assert all(protocol.lost.is_set() for protocol in silent)


class Stranger:
    """End of an accepted channel; the address as its transport gives it."""

    def __init__(self, address):
        self.address = address

    def abort(self):
        raise AssertionError("its place was given to another")


@pytest.mark.parametrize("written", ["[{}]:{}", "ipv6:%5B{}%5D:{}"], ids=["tcp", "grpc"])
async def test_one_network_of_ipv6_is_one_address_whatever_the_transport(net, written):
    """One machine may use every address of a network of 64 bits."""
    acceptor = (await net.start("a")).acceptor

    def enter(host, port):
        address = address_of(written.format(host, port))
        return acceptor.enter(Stranger(address), address)

    assert all(enter(f"2001:db8::{n:x}", 40_000 + n) for n in range(MAX_UNAUTHENTICATED_EACH))
    assert not enter("2001:db8::ffff", 50_000)
    assert enter("2001:db8:0:1::1", 50_000)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_caller_over_grpc_is_counted_by_its_address(host):
    node = await Node("a@127.0.0.1", address=(host, 0)).start()
    counted, enter = asyncio.get_running_loop().create_future(), node.distribution.acceptor.enter
    node.distribution.acceptor.enter = lambda caller, address: (
        counted.set_result(address) or enter(caller, address)
    )
    shown = show(node.distribution.address)
    try:
        async with grpc.aio.insecure_channel(shown) as connection:
            call = connection.stream_stream("/gossamer.Distribution/Channel")()
            async with asyncio.timeout(5):
                address = await counted
            call.cancel()
        assert address.rpartition(":")[0] == shown.rpartition(":")[0]
    finally:
        await node.runtime.stop()


def dial(node):
    """A gRPC connection of a stranger, and how a stream is opened on it."""
    host, port = node.distribution.address
    connection = grpc.aio.insecure_channel(
        f"{host}:{port}",
        options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)],
    )
    return connection, connection.stream_stream("/gossamer.Distribution/Channel")


@pytest.mark.parametrize("size", [HANDSHAKE_LIMIT + 1, PIECE + 1, 16 * 1024 * 1024])
async def test_a_stranger_cannot_have_a_long_message_held(size):
    a = await Node("a", GrpcTransport()).start()
    connection, open_stream = dial(a)
    call = open_stream()
    async with asyncio.timeout(10):
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await call.write(bytes(size))
            assert await call.read() is grpc.aio.EOF
        assert call.done()
    assert not len(a.distribution.acceptor.unauthenticated)
    await connection.close()
    await a.runtime.stop()


async def test_connections_that_open_no_stream_are_closed(monkeypatch):
    """One that says nothing at all, and one that speaks HTTP/2 and asks for nothing."""
    times = {"grpc.max_connection_idle_ms": 300, "grpc.server_handshake_timeout_ms": 300}
    assert times.keys() <= dict(grpc_transport._SERVER_OPTIONS).keys()
    options = [*(dict(grpc_transport._SERVER_OPTIONS) | times).items()]
    monkeypatch.setattr(grpc_transport, "_SERVER_OPTIONS", options)
    a = await Node("a", GrpcTransport()).start()
    settings = bytes.fromhex("000000040000000000")
    for said in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings):
        reader, writer = await asyncio.open_connection(*a.distribution.address)
        writer.write(said)
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
    await a.runtime.stop()


async def test_a_connection_carries_one_stream():
    """Streams beside the first one wait, and take no place of another caller."""
    a, b = [await Node(name, GrpcTransport()).start() for name in "ab"]
    connection, open_stream = dial(a)
    calls = [open_stream() for _ in range(50)]
    await asyncio.sleep(0)
    await linked(a, b)
    assert len(a.distribution.acceptor.unauthenticated) <= 1
    for call in calls:
        call.cancel()
    await connection.close()
    await a.runtime.stop()
    await b.runtime.stop()


async def test_frames_of_many_pieces_arrive_whole():
    a, b = await linked(*[await Node(name, GrpcTransport()).start() for name in "ab"])
    sent = [bytes([size % 251]) * size for size in (1, PIECE - 100, PIECE, 3 * PIECE, 8 * PIECE + 5)]
    for payload in sent:
        a.distribution.send("b", "data", payload)
    await b.until(lambda: len(b.frames) == len(sent))
    assert [frame.payload for frame in b.frames] == sent
    await a.runtime.stop()
    await b.runtime.stop()
