"""What a member of a share group leaves unacknowledged goes to another one."""

import pytest
from structlog.testing import capture_logs

from gossamer.mqtt.codec import packets as p

FILTER = "$share/g/t/+"


async def pair(world, *, qos=1, **first):
    """Two members; all messages go to the first until the second is there."""
    one = await world.subscriber("one", FILTER, qos=qos, **first)
    return one, await world.client("publisher")


def payloads(packets):
    return [packet.payload for packet in packets if isinstance(packet, p.Publish)]


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_in_flight_or_queued_when_a_session_ends_goes_to_another_member(make_world, qos):
    world = await make_world(max_inflight=3)
    one, publisher = await pair(world, qos=qos, clean_start=True)
    for n in range(8):
        publisher.publish("t/x", b"%d" % n, qos=qos, packet_id=n + 1)
    got = await one.got()
    assert payloads(got) == [b"0", b"1", b"2"]
    # The first is settled, as far as its member has to say.
    first = got[0].packet_id
    one.send(p.Puback(first) if qos == 1 else p.Pubrec(first))
    await world.settle()
    two = await world.subscriber("two", FILTER, qos=qos)
    one.transport.abort()
    got = await two.got()
    # One of QoS 2 that was sent was meant for its first member alone ([MQTT-4.8.2-5]).
    expected = [b"%d" % n for n in range(1 if qos == 1 else 3, 8)]
    while len(payloads(got)) < len(expected):
        for packet in got[-3:]:
            if isinstance(packet, p.Publish):
                two.send(p.Puback(packet.packet_id) if qos == 1 else p.Pubrec(packet.packet_id))
            elif isinstance(packet, p.Pubrel):
                two.send(p.Pubcomp(packet.packet_id))
        more = await two.got()
        assert more, payloads(got)
        got += more
    assert payloads(got) == expected
    assert world.broker.redispatch.count == len(expected)


async def test_a_session_that_waits_for_its_client_keeps_them_until_it_ends(world):
    one, publisher = await pair(world, version=p.V5, clean_start=True, properties=expiry(60))
    publisher.publish("t/x", b"kept", qos=1, packet_id=1)
    await one.got()
    two = await world.subscriber("two", FILTER, qos=1)
    one.transport.abort()
    assert payloads(await two.got()) == []
    world.later(61)
    assert payloads(await two.got()) == [b"kept"]


async def test_what_an_ordinary_subscription_asked_for_too_is_nobody_elses(world):
    one, publisher = await pair(world)
    await one.subscribe("t/#", qos=1)
    publisher.publish("t/x", b"both", qos=1, packet_id=1)
    assert payloads(await one.got()) == [b"both", b"both"]
    two = await world.subscriber("two", FILTER, qos=1)
    one.transport.abort()
    assert payloads(await two.got()) == []


async def test_each_group_gets_its_own_copy_again(world):
    one, publisher = await pair(world)
    await one.subscribe("$share/h/t/#", qos=1)
    publisher.publish("t/x", b"m", qos=1, packet_id=1)
    assert payloads(await one.got()) == [b"m", b"m"]
    for name, group in (("two", FILTER), ("three", "$share/h/t/#")):
        await (await world.client(name)).subscribe(group, qos=1)
    one.transport.abort()
    await world.settle()
    inflight = {name: len(session.inflight) for name, session in world.broker.sessions.items()}
    assert inflight == {"publisher": 0, "two": 1, "three": 1}


async def test_a_message_that_cannot_be_read_keeps_no_session_from_ending(make_world):
    world = await make_world(max_inflight=2)
    one, publisher = await pair(world, clean_start=True)
    for n in range(5):
        publisher.publish("t/x", b"%d" % n, qos=1, packet_id=n + 1)
    packet_id = (await one.got())[0].packet_id
    session = one.channel.session
    session.inflight[packet_id] = session.inflight[packet_id].replace(b"t/x", b"t/\xff")
    head, tail, message = session.queue[1]
    session.queue[1] = head.replace(b"t/x", b"t/\xff"), tail, message
    two = await world.subscriber("two", FILTER, qos=1)
    with capture_logs() as lines:
        one.transport.abort()
        got = await two.got()
    assert payloads(got) == [b"1", b"2"]
    two.send(*[p.Puback(packet.packet_id) for packet in got])
    assert payloads(await two.got()) == [b"4"]
    assert "one" not in world.broker.sessions
    told = [line for line in lines if line["event"] == "not_redispatched"]
    assert [line["client_id"] for line in told] == ["one", "one"]


async def test_the_last_member_takes_them_with_it(world):
    one, publisher = await pair(world)
    publisher.publish("t/x", b"m", qos=1, packet_id=1)
    await one.got()
    one.transport.abort()
    await world.settle()
    assert world.broker.fanout.drops["no_group_member"] == 1


async def look(world, times):
    for _ in range(times):
        for _ in world.broker.router.refresh_groups():
            pass
        await world.settle()


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_waits_for_a_member_that_takes_nothing_goes_to_one_that_has_room(make_world, qos):
    world = await make_world(max_inflight=3)
    one, publisher = await pair(world, qos=qos, clean_start=True)
    for n in range(9):
        publisher.publish("t/x", b"%d" % n, qos=qos, packet_id=n + 1)
    assert payloads(await one.got()) == [b"0", b"1", b"2"]
    two = await world.subscriber("two", FILTER, qos=0)
    await look(world, 1)
    assert payloads(await two.got()) == []
    # Half of it at each look, and nothing of what the first one may have.
    await look(world, 1)
    assert payloads(await two.got()) == [b"3", b"4", b"5"]
    await look(world, 3)
    assert payloads(await two.got()) == [b"6", b"7", b"8"]
    assert len(one.channel.session.inflight) == 3
    assert not one.channel.session.queue
    assert world.broker.owed.waiting == 0


async def test_what_may_be_for_another_subscription_of_a_member_stays_with_it(make_world):
    world = await make_world(max_inflight=1)
    one, publisher = await pair(world)
    await one.subscribe("u/#", qos=1)
    await one.subscribe("$share/h/t/h", qos=1)
    for n, topic in enumerate(("t/x", "t/x", "u/x", "t/x", "t/h", "t/x")):
        publisher.publish(topic, b"%d" % n, qos=1, packet_id=n + 1)
    two = await world.subscriber("two", FILTER, qos=1)
    await one.got()
    await look(world, 9)
    assert payloads(await two.got()) == [b"1"]
    assert len(one.channel.session.queue) == 5


def expiry(seconds):
    from gossamer.mqtt.codec.properties import Properties

    return Properties(session_expiry=seconds)
