"""Links as they look to somebody between two nodes, who records, changes and repeats what passes."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from gossamer.distribution import GrpcTransport, StreamTransport
from gossamer.network import SystemNetwork

from .conftest import Node

SECRET = b"a payload that is nobody else's"


class Between:
    """Calls to its address go to ``target``; what they say is recorded, and passed on by ``change``."""

    def __init__(self):
        self.said = bytearray()
        self.change = bytes
        self.target = None
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
                self._carry(far_reader, writer, bytes),
            )
        except OSError:
            pass
        finally:
            writer.close()
            far_writer.close()

    async def _carry(self, reader, writer, change):
        while data := await reader.read(65536):
            self.said += data
            writer.write(change(data))
            await writer.drain()
        writer.close()


@asynccontextmanager
async def watched(transport):
    """Two nodes that are linked, and who stands between a and b."""
    between = await Between().start()
    a, b = [await Node(name, transport()).start() for name in "ab"]
    between.target = b.distribution.address
    a.distribution.connect("b", 1, between.address)
    b.connect(a)
    await a.until(a.distribution.nodes)
    await b.until(b.distribution.nodes)
    try:
        yield between, a, b
    finally:
        await a.runtime.stop()
        await b.runtime.stop()
        await between.stop()


def plain():
    return StreamTransport(SystemNetwork())


both = pytest.mark.parametrize("transport", [GrpcTransport, plain])


@both
async def test_what_nodes_send_each_other_cannot_be_read(transport):
    async with watched(transport) as (between, a, b):
        a.distribution.send("b", "data", SECRET)
        await b.until(lambda: b.frames)
        assert b.frames[0].payload == SECRET
        assert between.said
        assert SECRET not in between.said


@both
async def test_a_changed_message_ends_its_channel_and_comes_again(transport):
    async with watched(transport) as (between, a, b):

        def change_once(data):
            between.change = bytes
            return data[:-1] + bytes([data[-1] ^ 1])

        between.change = change_once
        for number in range(20):
            a.distribution.send("b", "data", b"%d" % number)
        await b.until(lambda: len(b.frames) >= 20)
        assert [frame.payload for frame in b.frames] == [b"%d" % number for number in range(20)]
        assert between.change is bytes


async def test_a_repeated_message_is_not_taken():
    """gRPC numbers its streams by itself: only what is framed plainly can be repeated piece by piece."""
    async with watched(plain) as (between, a, b):
        between.change = lambda data: data + data
        a.distribution.send("b", "data", b"once")
        await b.until(lambda: b.frames)
        between.change = bytes
        a.distribution.send("b", "data", b"after")
        await b.until(lambda: len(b.frames) >= 2)
        assert [frame.payload for frame in b.frames] == [b"once", b"after"]
