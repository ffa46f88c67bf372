"""The same again with sessions on disc: what is promised waits for the commit, and is promised no less."""

import asyncio

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.session.store import SessionStore
from gossamer.routes import SubscriptionOptions
from mqtt.fakes import FakeJournal
from mqtt.harness import World

from .statements import keeps
from .test_publish import (  # noqa: F401 - collected here as well
    FailsOnce,
    payloads,
    test_a_message_is_answered_by_its_qos_and_delivered_at_the_lower_one,
    test_a_message_lives_as_long_as_its_expiry_unless_it_was_sent,
    test_behind_its_acknowledgement_an_identifier_is_a_new_message,
    test_no_more_is_in_flight_than_the_client_takes,
    test_order_is_kept_for_each_publisher_and_topic,
    test_what_could_not_be_passed_on_is_passed_on_when_it_is_sent_again,
)
from .test_sessions import *  # noqa: F403 - collected here as well
from .test_wills import *  # noqa: F403 - collected here as well
from .wire import publish


class Journal(FakeJournal):
    """A disc that commits in the next turn of the loop, everything at once, unless it is full."""

    full = False

    def put(self, key, value):
        if not self.open:
            asyncio.get_running_loop().call_soon(self.commit)
        return super().put(key, value)

    def commit(self):
        if not self.full:
            super().commit()


class PersistentWorld(World):
    async def start(self):
        self.journal = Journal()
        self.broker.table.store = SessionStore(
            self.journal,
            wall=self.clock.wall,
            monotonic=self.clock.monotonic,
            soon=lambda callback: asyncio.get_running_loop().call_soon(callback),
        )
        await super().start()

    async def settle(self):
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
def world_class():
    return PersistentWorld


async def test_they_are_on_disc(world):
    await world.subscriber("s", "t", clean_start=False)
    assert {client_id for client_id, *_ in world.journal.read()} == {"s"}


async def returns_to_a_full_disc(world, **options):
    """A client whose session is subscribed to ``t`` is back, and CONNACK waits for the commit."""
    client = await world.subscriber("s", "t", clean_start=False)
    await client.drop()
    world.journal.full = True
    client = world.dial()
    client.send(p.Connect(client_id="s", clean_start=False, **options))
    assert await client.got() == []
    return client


async def has_room(world):
    world.journal.full = False
    world.journal.commit()
    await world.settle()


@keeps(v4="3.2.0-1", v5="3.2.0-1")
@pytest.mark.parametrize("turns", [1, 20])
@pytest.mark.parametrize("will", [None, p.Will(topic=b"w", payload=b"")])
async def test_what_is_published_before_connack_waits_behind_it(world, turns, will):
    client = await returns_to_a_full_disc(world, will=will)
    publisher = await world.client("p")
    for number in range(3):
        publisher.publish("t", b"%d" % number)
        for _ in range(turns):
            await asyncio.sleep(0)
    assert not client.transport.written
    # In the turn of the commit as well.
    publisher.publish("t", b"3")
    await has_room(world)
    publisher.publish("t", b"4")
    connack, *published = await client.got()
    assert isinstance(connack, p.Connack)
    assert payloads(published) == [b"0", b"1", b"2", b"3", b"4"]


async def test_no_more_waits_behind_connack_than_behind_a_socket(make_world):
    world = await make_world(max_write_buffer=4096)
    client = await returns_to_a_full_disc(world)
    publisher = await world.client("p")
    for number in range(10):
        publisher.publish("t", b"%d" % number * 1000)
        await world.settle()
    assert world.broker.fanout.drops["slow_consumer"] == 6
    await has_room(world)
    connack, *published = await client.got()
    assert isinstance(connack, p.Connack)
    assert [payload[:1] for payload in payloads(published)] == [b"0", b"1", b"2", b"3"]


async def test_a_client_that_is_sent_away_before_connack_gets_nothing(world):
    client = await returns_to_a_full_disc(world)
    publisher = await world.client("p")
    publisher.publish("t")
    client.channel.handle_message("kick")
    await has_room(world)
    assert client.closed
    assert await client.got() == []


async def test_what_may_not_be_safe_everywhere_is_passed_on_again_as_the_same_message(world):
    """The publisher's node died before it could say so: who has had it knows it by its identifier."""
    persistent, passing = await world.client("s", clean_start=False), await world.client("c")
    for client in (persistent, passing):
        await client.subscribe("t", qos=2)
    publisher = await world.client("p", clean_start=False)
    publisher.raw(publish(4, "t", b"x", flags=4, packet_id=7))
    await world.settle()
    session = world.broker.sessions["p"]
    message_id = session.message_id_of(7)
    assert message_id
    assert not session.doubtful
    publisher.raw(publish(4, "t", b"x", flags=12, packet_id=7))
    await world.settle()
    assert payloads(await passing.got()) == [b"x"]
    session.doubtful[7] = None
    publisher.raw(publish(4, "t", b"x", flags=12, packet_id=7))
    await world.settle()
    assert (session.message_id_of(7), session.doubtful) == (message_id, {})
    assert payloads(await passing.got()) == [b"x"]
    assert payloads(await persistent.got()) == [b"x"]
    assert [type(answer).__name__ for answer in await publisher.got()] == ["Pubrec"] * 3


async def test_who_sends_again_before_it_is_known_that_the_first_failed_sends_once_more(world):
    program = FailsOnce()
    world.broker.router.subscribe("t", program, SubscriptionOptions(qos=2))
    publisher = await world.client("p", clean_start=False)
    world.journal.full = True
    publisher.raw(publish(4, "t", b"x", flags=4, packet_id=7))
    await publisher.drop()
    publisher = world.dial()
    publisher.send(p.Connect(client_id="p", clean_start=False))
    publisher.raw(publish(4, "t", b"x", flags=12, packet_id=7))
    await has_room(world)
    assert (publisher.closed, program.got) == (True, [b"x"])
    publisher = await world.client("p", clean_start=False)
    publisher.raw(publish(4, "t", b"x", flags=12, packet_id=7))
    assert [(type(x), x.packet_id) for x in await publisher.got()] == [(p.Pubrec, 7)]
    assert program.got == [b"x"] * 2
