"""Topics that the same clients want share a route and its plan, for as long as both are right."""

import gc
import weakref

import pytest

from gossamer.mqtt.codec import packets as p
from mqtt.recording import record


@pytest.fixture
def uncollected():
    """Without the garbage collector: what is gone is gone because nobody has it."""
    gc.disable()
    yield
    gc.enable()


async def test_topics_of_one_subscriber_have_one_route(world):
    sub = await world.subscriber("s", "a/+", "b")
    pub = await world.client("p")
    for topic in ("a/1", "a/2", "b"):
        pub.publish(topic, topic.encode())
    assert [x.payload for x in await sub.got()] == [b"a/1", b"a/2", b"b"]
    routes = world.router.cache
    assert routes[b"a/1"] is routes[b"a/2"] is routes[b"b"]
    other = await world.subscriber("o", "a/2")
    pub.publish("a/2", b"both")
    pub.publish("a/1", b"one")
    assert [x.payload for x in await sub.got()] == [b"both", b"one"]
    assert [x.payload for x in await other.got()] == [b"both"]


async def test_a_route_is_gone_with_the_last_topic_that_has_it(world, uncollected):
    await world.subscriber("s", "a/+")
    pub = await world.client("p")
    pub.publish("a/1")
    pub.publish("a/2")
    await world.settle()
    route = weakref.ref(world.router.cache[b"a/1"])
    assert route().plan is not None
    del world.router.cache[b"a/1"]
    assert route() is not None
    del world.router.cache[b"a/2"]
    assert route() is None


async def test_a_client_that_comes_back_with_the_other_version_is_sent_that(world, uncollected):
    """Its route was in the cache before, and left it for another reason."""
    sub = await world.subscriber("s", "a/+", clean_start=False)
    pub = await world.client("p")
    pub.publish("a/1", b"to 3.1.1")
    assert [x.payload for x in await sub.got()] == [b"to 3.1.1"]
    await world.subscriber("o", "a/1")
    assert b"a/1" not in world.router.cache
    back = await world.client("s", version=p.V5, clean_start=False)
    pub.publish("a/2", b"to 5.0")
    assert [x.payload for x in await back.got()] == [b"to 5.0"]


async def test_what_is_recorded_names_the_filters_of_each_topic(world):
    rows = record(world)
    await world.subscriber("s", "a/+", "b")
    world.router.filters = {"a/+": 1, "b": 1}
    pub = await world.client("p")
    rows()
    pub.send(*[p.Publish(topic=topic, payload=b"x") for topic in (b"a/1", b"b", b"a/1", b"a/2")])
    await world.settle()
    assert [(row["topic"], row["filters"]) for row in rows("routed")] == [
        ("a/1", ("a/+",)),
        ("b", ("b",)),
        ("a/1", ("a/+",)),
        ("a/2", ("a/+",)),
    ]
