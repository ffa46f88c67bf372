"""What is fuzzed: every decoder that strangers reach, each as a function of bytes.

A target takes any bytes and comes back. Whatever it raises is a finding: a decoder answers with what it read
or with the error of its protocol, and holds no more than its limit meanwhile.

Coverage-guided by ``run`` (atheris), by chance in the unit tests; see ``corpus`` for where both begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gossamer.distribution.errors import TermError, WireError
from gossamer.distribution.remote.terms import decode_term, encode_term
from gossamer.distribution.transport.stream import _StreamChannel
from gossamer.distribution.wire import decode_ack, decode_batch, decode_handshake
from gossamer.distribution.wire import encode as encode_link
from gossamer.gossip.frames import FrameBuffer
from gossamer.gossip.keyring import Keyring, cluster_key, instance
from gossamer.gossip.wire import PacketRejected
from gossamer.gossip.wire import decode as decode_gossip
from gossamer.gossip.wire import encode as encode_gossip
from gossamer.mnesia_like.errors import BadFrameError
from gossamer.mnesia_like.replication.wire import decode_frame
from gossamer.mqtt import Framer, MqttProtocolError, decode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.connection.handshake import ProxyHeaderError, parse_header
from gossamer.mqtt.connection.websocket import WebSocket
from gossamer.mqtt.messages.records import read_record
from gossamer.supervisor import Crash
from tests.mqtt.harness import World

LIMIT = 4096
"""Largest packet or frame in these runs."""

GREETING = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def pieces(data: bytes) -> list[bytes]:
    """The input as it may come off a socket: the first byte says how large the reads are."""
    if not data:
        return []
    size = data[0] % 64 + 1 if data[0] < 192 else len(data)
    return [data[at : at + size] for at in range(1, len(data), size)]


def codec(data: bytes) -> None:
    """One packet. What can be read can be written, and is read as the same again."""
    if len(data) < 2:
        return
    version = p.V5 if data[0] & 1 else p.V4
    try:
        packet = decode(data[1], data[2:], version)
    except MqttProtocolError:
        return
    if isinstance(packet, p.Connect):
        version = packet.version
    whole = encode(packet, version)
    [(first, body)] = Framer().feed(whole)
    assert decode(first, body, version) == packet


def framing(data: bytes) -> None:
    """A stream in reads of any size: the same packets as in one read, and no more held than one."""
    framer = Framer(max_packet_size=LIMIT)
    found = []
    try:
        for piece in pieces(data):
            found += framer.feed(piece)
            assert len(framer._buffer) <= LIMIT
    except MqttProtocolError:
        return
    assert found == Framer(max_packet_size=LIMIT).feed(data[1:])


def proxy(data: bytes) -> None:
    """A PROXY header, byte by byte: once it is whole it stays so, and it is not waited for without end."""
    for stop in range(min(len(data), 600) + 1):
        try:
            found = parse_header(data[:stop])
        except ProxyHeaderError:
            return
        if found is not None:
            assert 0 < found[0] <= stop
            assert parse_header(data) == found
            return
        assert stop <= 536


class _Socket(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = False

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class _Frames:
    """The channel behind a WebSocket, whose client has been let in."""

    is_up = True

    def __init__(self) -> None:
        self.size = 0

    def connection_made(self, transport: Any) -> None:
        pass

    def data_received(self, data: bytes) -> None:
        assert len(data) <= LIMIT
        self.size += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        pass


def websocket(data: bytes) -> None:
    """A handshake and frames; the first bit says whether the handshake is part of the input."""
    if not data:
        return
    socket, behind = _Socket(), _Frames()
    web = WebSocket(behind, path="/mqtt", origins=(), max_frame=LIMIT)  # type: ignore[arg-type]
    web.connection_made(socket)
    if data[0] & 1:
        web.data_received(GREETING)
    for piece in pieces(data[1:]):
        if socket.closing:
            break
        web.data_received(piece)
    assert behind.size <= len(data)
    web.eof_received()
    web.connection_lost(None)


_ring = Keyring([cluster_key("fuzz")], env="fuzz")
_THERE = instance("0123456789abcdef")


def gossip(data: bytes) -> None:
    """A sealed packet, its body, and the frames of a stream."""
    try:
        _ring.open(data, own=(_THERE,))
    except PacketRejected:
        pass
    try:
        for message in decode_gossip(data):
            encode_gossip(message)
    except PacketRejected:
        pass
    buffer = FrameBuffer(max_frame=LIMIT)
    try:
        for piece in pieces(data):
            if buffer.feed(piece) is not None:
                break
            assert len(buffer._buffer) <= LIMIT + 4
    except PacketRejected:
        pass


class _Links:
    """The handler above a stream of a link."""

    def __init__(self) -> None:
        self.size = 0

    def opened(self, channel: Any) -> None:
        pass

    def received(self, messages: Sequence[bytes]) -> None:
        self.size += sum(map(len, messages))

    def pull(self) -> bytes | None:
        return None

    def closed(self, error: Exception | None) -> None:
        pass


def link(data: bytes) -> None:
    """What comes over a link: framing, handshake, batches, terms, and frames of tables."""
    for read in (decode_handshake, decode_batch, decode_ack):
        try:
            message = read(data)
        except WireError:
            continue
        assert read(encode_link(message)) == message
    try:
        term = decode_term(data)
    except TermError:
        pass
    else:
        try:
            encode_term(term)
        except TermError:
            pass
    try:
        decode_frame("peer", data)
    except BadFrameError:
        pass


def _stream(data: bytes) -> None:
    above = _Links()
    channel = _StreamChannel(above, set(), "fuzz", b"")
    socket = _Socket()
    channel.connection_made(socket)
    for piece in pieces(data):
        if socket.closing:
            break
        channel.data_received(piece)
        assert len(channel._buffer) <= LIMIT + 4 + 64
    assert above.size <= len(data)


_loop: asyncio.AbstractEventLoop | None = None


def _run(body: Coroutine[Any, Any, None]) -> None:
    global _loop
    if _loop is None:
        _loop = asyncio.new_event_loop()
    _loop.run_until_complete(body)


def links(data: bytes) -> None:
    """The stream that carries a link, in reads of any size."""

    async def body() -> None:
        _stream(data)

    _run(body())


_world: tuple[World, list[int]] | None = None
_LIVES = 200
"""Inputs after which the broker is a new one: what they left in it would make the next ones slow."""


async def _broker() -> World:
    global _world
    if _world is not None and _world[1][0] < _LIVES:
        _world[1][0] += 1
        return _world[0]
    if _world is not None:
        await _world[0].stop()
    # Between two inputs the loop stands still, which is no reason to let nobody in.
    world = World(max_packet_size="4KiB", max_lag="off")
    _world = world, [0]
    await world.start()
    return world


def channel(data: bytes) -> None:
    """What a client sends that was let in: its own connection ends at worst, and not by a crash."""
    if len(data) < 2:
        return

    async def body() -> None:
        world = await _broker()
        client = await world.client("fuzz", version=p.V5 if data[0] & 1 else p.V4)
        ends: list[Any] = []
        world.runtime.join(client.channel.pid).add_done_callback(lambda done: ends.append(done.result()))
        for piece in pieces(data[1:]):
            client.raw(piece)
        await world.settle()
        assert not any(isinstance(reason, Crash) for reason in ends), ends
        assert sum(map(len, client.channel._parts or ())) <= LIMIT + 64
        client.transport.close()
        await world.settle()

    _run(body())


def records(data: bytes) -> None:
    """Messages that a node forwarded."""
    pos = 0
    try:
        while pos < len(data):
            _, stop = read_record(data, pos, len(data), 0.0)
            assert pos < stop <= len(data)
            pos = stop
    except (MqttProtocolError, IndexError):
        # Both end the batch (see ``Ingest``).
        return


TARGETS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (codec, framing, channel, proxy, websocket, gossip, link, links, records)
}
