"""What every transport promises its handlers, on real loopback connections."""

import asyncio

import pytest

from gossamer.distribution.transport.grpc import GrpcTransport
from gossamer.distribution.transport.stream import StreamTransport
from gossamer.network import SystemNetwork

LOCAL = ("127.0.0.1", 0)


class End:
    """A handler that records what happens to it."""

    def __init__(self, limit=1 << 20):
        self.limit = limit
        self.channel = None
        self.outbox, self.inbox = [], []
        self.closings = []
        self.changed = asyncio.Event()
        self.pulls = 0

    def opened(self, channel):
        self.channel = channel
        channel.limit = self.limit
        self.changed.set()
        channel.wake()

    def received(self, messages):
        self.inbox += messages
        self.changed.set()

    def pull(self):
        self.pulls += 1
        self.changed.set()
        if len(self.outbox) > 1:
            self.channel.wake()
        return self.outbox.pop(0) if self.outbox else None

    def closed(self, error):
        self.closings.append(error)
        self.changed.set()

    def send(self, *messages):
        self.outbox.extend(messages)
        self.channel.wake()

    async def until(self, condition):
        async with asyncio.timeout(5):
            while not condition(self):
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(params=["grpc", "stream"])
def make(request):
    return GrpcTransport if request.param == "grpc" else lambda: StreamTransport(SystemNetwork())


@pytest.fixture
async def transport(make):
    transport = make()
    yield transport
    await transport.close()


@pytest.fixture
async def pair(transport):
    caller, called = End(), End()
    listener = await transport.listen(LOCAL, lambda: called)
    caller.outbox.append(b"hello")
    await transport.connect(listener.address, caller)
    await caller.until(lambda end: end.channel)
    await called.until(lambda end: end.inbox)
    called.inbox.clear()
    yield caller, called
    await listener.close()


async def test_messages_arrive_whole_and_in_order_both_ways(pair):
    caller, called = pair
    messages = [b"", b"a", bytes(100_000), *[bytes([n]) for n in range(200)]]
    caller.send(*messages)
    called.send(*messages)
    await called.until(lambda end: len(end.inbox) == len(messages))
    await caller.until(lambda end: len(end.inbox) == len(messages))
    assert called.inbox == caller.inbox == messages


@pytest.mark.parametrize("who", ["caller", "called"])
async def test_closing_lets_what_waits_arrive_first(pair, who):
    here, there = pair if who == "caller" else pair[::-1]
    here.send(b"last words")
    here.channel.close()
    await there.until(lambda end: end.closings)
    await here.until(lambda end: end.closings)
    assert there.inbox == [b"last words"]
    assert here.closings == [None]


async def test_an_abort_ends_both_sides_once(pair):
    caller, called = pair
    caller.channel.abort()
    await caller.until(lambda end: end.closings)
    await called.until(lambda end: end.closings)
    await asyncio.sleep(0)
    assert len(caller.closings) == len(called.closings) == 1


async def test_a_message_beyond_the_limit_closes_the_channel(pair):
    caller, called = pair
    called.channel.limit = 1000
    caller.send(bytes(1001))
    await called.until(lambda end: end.closings)
    assert "1001 bytes, expected at most 1000" in str(called.closings[0])
    assert called.inbox == []
    await caller.until(lambda end: end.closings)


async def test_a_paused_handler_gets_its_messages_later(pair):
    caller, called = pair
    called.channel.pause()
    caller.send(b"1", b"2", b"3")
    before = caller.pulls
    await caller.until(lambda end: end.pulls >= before + 3)
    # One read may have been under way.
    assert len(called.inbox) <= 1
    called.channel.resume()
    await called.until(lambda end: len(end.inbox) == 3)
    assert called.inbox == [b"1", b"2", b"3"]


async def test_nobody_there_is_refused(transport):
    listener = await transport.listen(LOCAL, End)
    address = listener.address
    await listener.close()
    caller = End()
    await transport.connect(address, caller)
    await caller.until(lambda end: end.closings)
    (error,) = caller.closings
    assert error.kind == "refused"
    assert error.address in str(error)


async def test_a_listener_that_closes_resets_its_callers(transport):
    listener = await transport.listen(LOCAL, End)
    caller = End()
    await transport.connect(listener.address, caller)
    caller.outbox.append(b"x")
    await caller.until(lambda end: end.channel)
    await listener.close()
    await caller.until(lambda end: end.closings)
    assert len(caller.closings) == 1


async def test_a_taken_port_is_an_error(transport, make):
    listener = await transport.listen(LOCAL, End)
    other = make()
    with pytest.raises(OSError, match="Address already in use"):
        await other.listen(listener.address, End)
    await listener.close()
    await other.close()
