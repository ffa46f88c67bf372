"""What is queued is bounded, in messages and in bytes, for a session and for a node."""

import asyncio
import os
import socket

import psutil
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pydantic import ValidationError

from gossamer.config import MqttLimitsConfig, MqttSessionsConfig
from gossamer.mqtt import Message, ReasonCode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.flow.backpressure import ITEM
from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.session import Session
from mqtt.fakes import FakeChannel, FakeFanout, FakeJournal
from mqtt.listening import accepted, broker_with, until

from .test_store import store_on


def weight(session):
    return sum(len(head) + len(tail) + ITEM for head, tail, _ in session.queue)


def message(number, size=1000):
    return Message(b"t", b"%04d" % number + b"x" * (size - 4), qos=1)


def give(session, *numbers, size=1000):
    for number in numbers:
        session.take(message(number, size), qos=1, retain=False)


def queued(session):
    return [int(tail.removeprefix(b"\0")[:4]) for _, tail, _ in session.queue]


ONE = 1000 + 6 + ITEM
"""What one of these messages weighs."""


@pytest.mark.parametrize(("keep_oldest", "kept"), [(False, [7, 8, 9]), (True, [0, 1, 2])])
def test_a_session_queues_no_more_bytes_than_it_may(keep_oldest, kept):
    fanout = FakeFanout()
    fanout.pressure.bound(max_session=3 * ONE + 100, max_node=1 << 30)
    session = Session("c", fanout=fanout, keep_oldest=keep_oldest)
    give(session, *range(10))
    assert queued(session) == kept
    assert fanout.drops == ["queue_full"] * 7
    assert fanout.pressure.queued == session.queued_bytes == weight(session) <= fanout.pressure.max_session


def test_a_large_message_pushes_out_as_many_as_it_needs_room():
    fanout = FakeFanout()
    fanout.pressure.bound(max_session=5 * ONE, max_node=1 << 30)
    session = Session("c", fanout=fanout)
    give(session, 0, 1, 2, 3)
    give(session, 4, size=2500)
    assert queued(session) == [2, 3, 4]
    assert fanout.drops == ["queue_full"] * 2


@pytest.mark.parametrize("keep_oldest", [False, True])
def test_all_queues_of_a_node_share_a_bound(keep_oldest):
    fanout = FakeFanout()
    fanout.pressure.bound(max_session=8 * ONE, max_node=10 * ONE + 100)
    greedy, late, nobody = (Session(name, fanout=fanout, keep_oldest=keep_oldest) for name in "abc")
    give(greedy, *range(8))
    give(late, *range(4))
    assert (len(greedy.queue), len(late.queue)) == (8, 2)
    assert queued(late) == ([0, 1] if keep_oldest else [2, 3])
    give(nobody, 0, size=3000)
    assert not nobody.queue
    assert fanout.drops == ["node_queue_full"] * 3
    greedy.forget()
    assert fanout.pressure.queued == weight(late)
    give(nobody, 0)
    assert queued(nobody) == [0]


def test_a_session_that_is_over_queues_nothing():
    fanout = FakeFanout()
    session = Session("c", fanout=fanout)
    give(session, 0)
    session.forget()
    give(session, 1)
    assert fanout.pressure.queued == 0
    assert not session.queue


class Backlogs(RuleBasedStateMachine):
    """Whatever happens to sessions, what they are said to have queued is what they have queued."""

    @initialize(keep_oldest=st.booleans(), durable=st.booleans())
    def begin(self, keep_oldest, durable):
        self.fanout = FakeFanout()
        self.fanout.pressure.bound(max_session=5000, max_node=8000)
        journal = FakeJournal()
        store = store_on(journal, self.fanout)
        options = {"fanout": self.fanout, "max_queued": 4, "keep_oldest": keep_oldest}
        make = (
            (lambda n: DurableSession(n, store=store, **options))
            if durable
            else (lambda n: Session(n, **options))
        )
        self.sessions = [make(name) for name in "abc"]

    which = st.integers(0, 2)

    @rule(which=which, size=st.integers(4, 1500))
    def take(self, which, size):
        give(self.sessions[which], 1, size=size)

    @rule(which=which, version=st.sampled_from([4, 5]), window=st.integers(1, 3))
    def connect(self, which, version, window):
        session = self.sessions[which]
        if session.channel is None:
            session.attach(FakeChannel(), version=version, receive_maximum=window)
            session.resume()

    @rule(which=which)
    def acknowledge(self, which):
        session = self.sessions[which]
        if session.channel is not None and session.inflight:
            session.acked(next(iter(session.inflight)))

    @rule(which=which)
    def disconnect(self, which):
        if self.sessions[which].channel is not None:
            self.sessions[which].detach()

    @rule(which=which, keep=st.integers(0, 3))
    def refill(self, which, keep):
        session = self.sessions[which]
        session.refill(list(session.queue)[:keep])

    @rule(which=which)
    def end(self, which):
        self.sessions[which].forget()

    @invariant()
    def what_is_counted_is_there(self):
        if hasattr(self, "sessions"):
            for session in self.sessions:
                assert session.queued_bytes == weight(session) <= self.fanout.pressure.max_session
            assert (
                self.fanout.pressure.queued
                == sum(map(weight, self.sessions))
                <= self.fanout.pressure.max_node
            )


TestBacklogs = Backlogs.TestCase
TestBacklogs.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


async def test_who_exceeds_its_bound_may_be_sent_away(make_world):
    world = await make_world(
        max_packet_size="4KiB", max_queued_bytes="8KiB", max_inflight=1, overflow="disconnect"
    )
    sub = await world.client("s", version=p.V5, clean_start=False, properties=Properties(session_expiry=100))
    await sub.subscribe("a", qos=1)
    for number in range(20):
        world.broker.publish("a", b"%04d" % number + b"x" * 1000, qos=1)
    got = await sub.got()
    while not sub.closed:
        got += await sub.got()
    assert isinstance(got[-1], p.Disconnect)
    assert got[-1].reason == ReasonCode.QUOTA_EXCEEDED
    stats = world.broker.stats()
    assert stats["dropped_slow_consumer_closed"] == 1
    session = world.broker.sessions["s"]
    assert stats["queued_bytes"] == session.queued_bytes == weight(session)
    # What is left is the newest, in order, and the client finds it when it is back.
    assert queued(session) == list(range(20 - len(session.queue), 20))
    again = await world.client(
        "s", version=p.V5, clean_start=False, properties=Properties(session_expiry=100)
    )
    found = [x for x in (*again.early, *await again.got()) if isinstance(x, p.Publish)]
    assert found


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_queued_bytes": "512KiB"},
        {"max_queued_bytes": "2GiB"},
        {"max_queued_bytes": 0},
        {"max_node_queued_bytes": "lots"},
    ],
)
def test_bounds_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        MqttLimitsConfig(**wrong)
    with pytest.raises(ValidationError):
        MqttSessionsConfig(overflow="drop_all")


@pytest.mark.real
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_reader_that_stops_costs_no_more_than_its_bounds(qos):
    """A hundred times as much is published to it as may be kept."""
    size, count = 64 * 1024, 1600
    limits = {"max_write_buffer": "1MiB", "max_queued_bytes": "1MiB", "max_inflight": 16}
    async with broker_with({}, limits=limits) as broker:
        port = broker.ports["tcp:0"]
        stopped = socket.socket()
        stopped.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.to_thread(stopped.connect, ("127.0.0.1", port))
        stopped.sendall(
            encode(p.Connect(client_id="stopped"), 4)
            + encode(p.Subscribe(packet_id=1, subscriptions=(p.Subscription("t", qos),)), 4)
        )
        await until(lambda: "stopped" in broker.sessions and broker.sessions["stopped"].subscriptions)
        session = broker.sessions["stopped"]
        reader, writer = await accepted(port, "p")
        before = psutil.Process(os.getpid()).memory_info().rss
        most = 0
        for number in range(1, count + 1):
            packet_id = number if qos else None
            writer.write(encode(p.Publish(topic=b"t", payload=bytes(size), qos=qos, packet_id=packet_id), 4))
            await writer.drain()
            if number % 16 == 0:
                if qos:
                    await reader.readexactly(4 * 16)
                most = max(most, psutil.Process(os.getpid()).memory_info().rss - before)
        writer.write(encode(p.Pingreq(), 4))
        assert (await reader.readexactly(2)) == b"\xd0\0"
        channel = session.channel
        assert channel is not None
        assert channel.unwritten <= 2 * 1024**2 + size
        assert session.queued_bytes <= 1024**2
        assert len(session.inflight) <= 16
        assert broker.fanout.drops["slow_consumer" if qos == 0 else "queue_full"] > count // 2
        # 100 MiB were published; what is kept is three, and Python's own hunger some more.
        assert most < 40 * 1024**2
        stopped.close()
        writer.close()
