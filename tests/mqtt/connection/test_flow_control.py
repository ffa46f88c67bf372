"""Slow consumers: what is dropped, what is queued, and who waits."""

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.flow.backpressure import _progress
from mqtt.fakes import FakeForwarder, FakeRouter


async def stick(client, unwritten=1 << 30):
    """The client stops reading: its socket takes nothing more."""
    client.transport.stuck = unwritten
    client.channel.pause_writing()


async def unstick(client):
    client.transport.stuck = 0
    client.channel.resume_writing()


async def test_qos_0_beyond_the_write_buffer_is_dropped_and_counted(world):
    sub = await world.subscriber("s", "a")
    await stick(sub)
    pub = await world.client("p")
    pub.send(*[p.Publish(topic=b"a", payload=b"%d" % n) for n in range(10)])
    assert await sub.got() == []
    assert world.broker.stats()["dropped_slow_consumer"] == 10


async def test_answers_are_sent_however_full_the_buffer_is(world):
    """[MQTT-3.3.4-10]"""
    sub = await world.subscriber("s", "a")
    await stick(sub, 5 << 20)
    sub.send(p.Pingreq())
    world.broker.publish("a", b"1")
    assert await sub.got() == [p.Pingresp()]


async def test_qos_1_waits_until_the_socket_takes_more(world):
    sub = await world.subscriber("s", "a", qos=1)
    await stick(sub)
    for n in range(3):
        world.broker.publish("a", b"%d" % n, qos=1)
    assert await sub.got() == []
    await unstick(sub)
    assert [x.payload for x in await sub.got()] == [b"0", b"1", b"2"]


async def test_a_publisher_waits_for_a_subscriber_that_is_behind(world):
    sub = await world.subscriber("s", "a", qos=1)
    pub = await world.client("p")
    other = await world.client("o")
    await stick(sub)
    pub.publish("a", qos=1, packet_id=1)
    other.publish("elsewhere", qos=1, packet_id=1)
    assert pub.transport.paused
    assert not other.transport.paused
    await unstick(sub)
    assert not pub.transport.paused


async def test_a_publisher_does_not_wait_for_ever(world):
    sub = await world.subscriber("s", "a")
    pub = await world.client("p")
    await stick(sub)
    pub.publish("a")
    assert pub.transport.paused
    session = world.broker.sessions["s"]
    world.broker.fanout.pressure._wait(session, _progress(session))
    assert not pub.transport.paused
    pub.publish("a")
    assert not pub.transport.paused


async def test_a_publisher_waits_on_while_its_subscriber_gets_somewhere(world):
    sub = await world.subscriber("s", "a")
    pub = await world.client("p")
    await stick(sub, 5000)
    pub.publish("a")
    session = world.broker.sessions["s"]
    before = _progress(session)
    sub.transport.stuck = 4000
    world.broker.fanout.pressure._wait(session, before)
    assert pub.transport.paused


async def test_a_subscriber_that_leaves_holds_nobody_up(world):
    sub = await world.subscriber("s", "a")
    pub = await world.client("p")
    await stick(sub)
    pub.publish("a")
    await sub.drop()
    assert not pub.transport.paused


@pytest.mark.parametrize(
    ("limits", "size"),
    [({"max_queued": 8}, 1), ({"max_packet_size": "4KiB", "max_queued_bytes": "16KiB"}, 1000)],
    ids=["messages", "bytes"],
)
async def test_a_long_queue_holds_publishers_up_until_it_shrinks(make_world, limits, size):
    world = await make_world(max_inflight=1, **limits)
    sub = await world.subscriber("s", "a", qos=1)
    pub = await world.client("p")
    for n in range(5):
        pub.publish("a", b"%d" % n * size, qos=1, packet_id=n + 1)
    assert pub.transport.paused
    for n in range(5):
        [got] = await sub.got()
        assert got.payload == b"%d" % n * size
        sub.send(p.Puback(got.packet_id))
    assert not pub.transport.paused


async def test_a_publisher_that_is_waiting_is_not_taken_for_dead(world):
    sub = await world.subscriber("s", "a")
    pub = await world.client("p", keep_alive=10)
    await stick(sub)
    pub.publish("a")
    world.later(20)
    assert not pub.closed
    await unstick(sub)
    world.later(30)
    assert pub.closed


async def test_a_publisher_waits_for_a_link_that_is_behind(make_world):
    world = await make_world(router=FakeRouter())
    world.router.add_peer("a", FakeForwarder())
    world.router.congestion("there", True)
    pub = await world.client("p")
    other = await world.client("o")
    pub.publish("a")
    other.publish("b")
    assert pub.transport.paused
    assert not other.transport.paused
    world.router.congestion("there", False)
    assert not pub.transport.paused


async def test_peers_are_held_back_while_a_session_is_far_behind(make_world):
    """Nothing is lost meanwhile, and what is held is told in order once the session has caught up."""
    world = await make_world(router=FakeRouter(), max_queued=2, max_inflight=1)
    sub = await world.subscriber("s", "a", qos=1)
    record = b"\x32\x06\0\1a\0\1x"
    told = []
    for n in range(12):
        hold = world.router.callback("there", record)
        if hold is None:
            told.append(n)
        else:
            hold.then(lambda n=n: told.append(n))
    assert told == list(range(8))
    assert len(world.broker.sessions["s"].queue) == 11
    while len(told) < 12:
        [got] = await sub.got()
        sub.send(p.Puback(got.packet_id))
    assert told == list(range(12))
    assert "dropped_queue_full" not in world.broker.stats()


async def test_a_dead_session_does_not_hold_peers_back_for_ever(make_world):
    world = await make_world(router=FakeRouter(), max_queued=2, max_inflight=1)
    await world.subscriber("s", "a", qos=1)
    for _ in range(30):
        hold = world.router.callback("there", b"\x32\x06\0\1a\0\1x")
    told = []
    hold.then(lambda: told.append(True))
    session = world.broker.sessions["s"]
    world.broker.fanout.pressure._drain(session, _progress(session))
    assert told == [True]
    assert world.broker.stats()["dropped_queue_full"] == 30 - 1 - 2 * 2 * 4


async def test_a_client_that_asks_and_never_reads_is_cut_off(world):
    client = await world.client("c")
    await stick(client, 9 << 20)
    client.send(p.Pingreq())
    await world.settle()
    assert client.closed
    assert world.broker.stats()["dropped_slow_consumer_closed"] == 1


async def test_a_closing_connection_does_not_linger(world, monkeypatch):
    client = await world.client("c")
    aborted = []
    monkeypatch.setattr(client.transport, "abort", lambda: aborted.append(True))
    client.transport.stuck = 100
    client.send(p.Disconnect())
    world.later(11)
    assert aborted == [True]


async def test_a_client_is_not_held_up_by_itself(make_world):
    world = await make_world(max_queued=4, max_inflight=1)
    client = await world.subscriber("c", "a", qos=1)
    for n in range(4):
        client.publish("a", b"%d" % n, qos=1, packet_id=n + 1)
    assert not client.transport.paused
