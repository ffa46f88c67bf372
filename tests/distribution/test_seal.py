"""Links as they look to somebody between two nodes, who records, changes, adds to and repeats what passes."""

import asyncio
from contextlib import asynccontextmanager
from itertools import product

import pytest

from gossamer.distribution import GrpcTransport, StreamTransport
from gossamer.network import SystemNetwork

from .conftest import Node, certificates

A, B = "a@127.0.0.1", "b@127.0.0.1"
SECRET = b"a payload that is nobody else's"
COOKIE = b"5b2b83cf65e5b2ab"
FORGED = b"\xc0" * 64
PREFACE, DATA = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0
"""Of HTTP/2: what callers begin with, and the type of a frame."""


class Between:
    """Calls to its address go to ``target``; what callers say is passed on by ``change``, and answers by
    ``change_answer``. All is recorded.
    """

    def __init__(self):
        self.said = bytearray()
        self.change = self.change_answer = bytes
        self.target = None
        self.ended = asyncio.Semaphore(0)
        self._tasks = set()

    async def start(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()
        return self

    async def stop(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        far_reader, far_writer = await asyncio.open_connection(*self.target)
        try:
            await asyncio.gather(
                self._carry(reader, far_writer, lambda data: self.change(data)),
                self._carry(far_reader, writer, lambda data: self.change_answer(data)),
            )
        except OSError:
            pass
        finally:
            self.ended.release()
            writer.close()
            far_writer.close()

    async def _carry(self, reader, writer, change):
        while data := await reader.read(65536):
            self.said += data
            writer.write(change(data))
            await writer.drain()
        writer.close()


def plain(certificates=None):
    return StreamTransport(SystemNetwork(), certificates=certificates)


def grpc(certificates=None):
    return GrpcTransport(certificates=certificates)


def message_end(kind, data):
    """Where the last sealed byte of a message is; None: HTTP/2 speaks for itself, which nobody seals."""
    if kind != (grpc, False):
        return len(data) - 1
    at = len(PREFACE) if data.startswith(PREFACE) else 0
    while at + 9 <= len(data):
        size = int.from_bytes(data[at : at + 3], "big")
        if size and data[at + 3] == DATA:
            return at + 9 + size - 1
        at += 9 + size
    return None


def flip(data, end, _kind):
    return data[:end] + bytes([data[end] ^ 1]) + data[end + 1 :]


def append(data, _end, kind):
    """A message that nobody sealed, framed as the transport frames its own."""
    make, tls = kind
    message = len(FORGED).to_bytes(4, "big") + FORGED
    if tls:
        return data + b"\x17\x03\x03" + message[2:]
    if make is plain:
        return data + message
    return data + (len(message) + 1).to_bytes(3, "big") + b"\0\0" + (1).to_bytes(4, "big") + b"\0" + message


@pytest.fixture(params=product((grpc, plain), (False, True)), ids=lambda p: f"{p[0].__name__}-tls-{p[1]}")
def kind(request):
    return request.param


@asynccontextmanager
async def strangers(kind, authority):
    """Two nodes, and who stands between a and b."""
    make, tls = kind
    between = await Between().start()
    a, b = [
        await Node(name, make(certificates(authority, name) if tls else None), cookie=COOKIE.decode()).start()
        for name in (A, B)
    ]
    between.target = b.distribution.address
    try:
        yield between, a, b
    finally:
        await a.runtime.stop()
        await b.runtime.stop()
        await between.stop()


@asynccontextmanager
async def watched(kind, authority):
    """Every channel between them is open."""
    async with strangers(kind, authority) as (between, a, b):
        a.distribution.connect(B, 1, between.address)
        b.connect(a)
        await a.until(lambda: (B, "ok") in a.evidence)
        await b.until(lambda: (A, "ok") in b.evidence)
        yield between, a, b


async def test_what_nodes_send_each_other_cannot_be_read(kind, authority):
    async with watched(kind, authority) as (between, a, b):
        a.distribution.send(B, "data", SECRET)
        await b.until(lambda: b.frames)
        assert b.frames[0].payload == SECRET
        assert between.said
        assert SECRET not in between.said
        assert COOKIE not in between.said


@pytest.mark.parametrize("way", ["change", "change_answer"])
@pytest.mark.parametrize("how", [flip, append])
async def test_a_changed_or_added_message_ends_its_channel_and_all_come_again(kind, authority, how, way):
    async with watched(kind, authority) as (between, a, b):

        def once(data):
            if (end := message_end(kind, data)) is None:
                return data
            setattr(between, way, bytes)
            return how(data, end, kind)

        setattr(between, way, once)
        for number in range(20):
            a.distribution.send(B, "data", b"%d" % number)
        await b.until(lambda: len(b.frames) >= 20)
        await asyncio.wait_for(between.ended.acquire(), 10)
        a.distribution.send(B, "data", b"after")
        await b.until(lambda: len(b.frames) >= 21)
        assert [frame.payload for frame in b.frames] == [*(b"%d" % number for number in range(20)), b"after"]


@pytest.mark.parametrize("way", ["change", "change_answer"])
@pytest.mark.parametrize("how", [flip, append])
async def test_a_handshake_that_is_changed_brings_no_node_up(kind, authority, how, way):
    async with strangers(kind, authority) as (between, a, b):

        def every(data):
            end = message_end(kind, data)
            return data if end is None else how(data, end, kind)

        setattr(between, way, every)
        a.distribution.connect(B, 1, between.address)
        b.connect(a)
        for _connection in range(2):
            await asyncio.wait_for(between.ended.acquire(), 10)
        assert not a.distribution.nodes()
        setattr(between, way, bytes)
        await a.until(a.distribution.nodes)
        await b.until(b.distribution.nodes)


async def test_a_repeated_message_is_not_taken(authority):
    """gRPC numbers its streams by itself: only what is framed plainly can be repeated piece by piece."""
    async with watched((plain, False), authority) as (between, a, b):
        between.change = lambda data: data + data
        a.distribution.send(B, "data", b"once")
        await b.until(lambda: b.frames)
        between.change = bytes
        a.distribution.send(B, "data", b"after")
        await b.until(lambda: len(b.frames) >= 2)
        assert [frame.payload for frame in b.frames] == [b"once", b"after"]
