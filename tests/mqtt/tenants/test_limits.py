"""Limits of a tenant: each is enforced with the code of MQTT and a reason that names it, from now on."""

import pytest

from gossamer.errors import WrongValueError
from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.tenants.limits import TenantLimits, read_limits
from gossamer.tenants import LIMITS, InvalidTenantError, limit_of
from mqtt.harness import connack
from mqtt.tenants.test_isolation import of_tenants


class Table:
    """The shared table, of one node."""

    def __init__(self):
        self.held = {}
        self.told = []

    def rows(self):
        return dict(self.held)

    def subscribe(self, callback):
        self.told.append(callback)

    def write(self, key, value):
        self.held[key] = value
        for callback in self.told:
            callback(())

    async def durable(self):
        pass


@pytest.fixture
async def world(make_world):
    world = await make_world(authenticator=of_tenants())
    world.broker.tenants.attach(Table())
    return world


async def limit(world, tenant="a", **limits):
    return await world.broker.tenants.set(tenant, limits)


async def test_one_connection_more_than_allowed_is_refused(world):
    await limit(world, max_connections=1)
    first = await world.client("c1", username="a/u")
    answer = await connack(world.dial(), client_id="c2", username="a/u")
    assert answer.reason == ReasonCode.QUOTA_EXCEEDED
    assert answer.properties.reason_string == "tenant a has reached its limit max_connections: 1"
    await world.client("c2", username="b/u")
    await world.client("c2")
    await first.drop()
    await world.client("c2", username="a/u")


async def test_one_subscription_of_a_session_more_than_allowed_is_refused(world):
    await limit(world, max_subscriptions=2)
    client = await world.client("c", version=p.V5, username="a/u")
    [suback] = await client.subscribe("1", "2", "3")
    assert suback.reasons == (0, 0, ReasonCode.QUOTA_EXCEEDED)
    assert suback.properties.reason_string == "tenant a has reached its limit max_subscriptions: 2"
    [suback] = await client.subscribe("1")
    assert suback.reasons == (0,)


async def test_one_retained_topic_more_than_allowed_is_refused(world):
    await limit(world, max_retained=1)
    mine = await world.client("c", version=p.V5, username="a/u")
    other = await world.client("c", version=p.V5, username="b/u")

    async def retain(client, topic, payload=b"x"):
        client.publish(topic, payload, qos=1, packet_id=1, retain=True)
        [puback] = await client.got()
        return puback

    assert (await retain(mine, "1")).reason < 0x80
    refused = await retain(mine, "2")
    assert refused.reason == ReasonCode.QUOTA_EXCEEDED
    assert refused.properties.reason_string == "tenant a has reached its limit max_retained: 1"
    assert (await retain(mine, "1", b"newer")).reason < 0x80
    assert (await retain(other, "1")).reason < 0x80
    assert (await retain(other, "2")).reason < 0x80
    assert (await retain(mine, "1", b"")).reason < 0x80
    assert (await retain(mine, "2")).reason < 0x80
    assert world.broker.retained.count("a") == 1
    assert world.broker.retained.count("b") == 2


async def test_a_packet_larger_than_allowed_ends_its_connection(world):
    await limit(world, max_packet_size=1024)
    client = await world.client("c", version=p.V5, username="a/u")
    assert client.connack.properties.maximum_packet_size == 1024
    client.publish("t", bytes(2000))
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.PACKET_TOO_LARGE


@pytest.mark.parametrize("qos", [0, 1])
async def test_clients_of_a_tenant_that_publishes_too_fast_are_read_from_more_slowly(world, qos):
    await limit(world, max_publish_rate=5)
    clients = [await world.client(f"c{n}", username="a/u") for n in range(2)]
    other = await world.client("c", username="b/u")
    for client in (*clients, other):
        for number in range(4):
            client.publish("t", qos=qos, packet_id=number + 1 if qos else None)
    assert [client.transport.paused for client in (*clients, other)] == [False, True, False]
    assert world.broker.fanout.slowed
    assert world.broker.tenants.of("a").received == 8


async def test_a_ban_ends_connections_and_lets_nobody_in_until_it_is_taken_back(world):
    mine = await world.client("c", version=p.V5, username="a/u")
    other = await world.client("c", username="b/u")
    await world.broker.tenants.set("a", {}, banned=True)
    [goodbye] = await mine.got()
    assert goodbye.reason == ReasonCode.ADMINISTRATIVE_ACTION
    answer = await connack(world.dial(), client_id="c", username="a/u")
    assert (answer.reason, answer.properties.reason_string) == (ReasonCode.BANNED, "tenant a is banned")
    assert not other.closed
    await world.broker.tenants.set("a", {}, banned=False)
    await world.client("c", username="a/u", version=p.V5, properties=Properties())


async def test_what_is_not_named_stays_and_none_takes_a_limit_away(world):
    await limit(world, max_connections=1, max_retained=2)
    await limit(world, max_retained=None)
    assert world.broker.tenants.of("a").limits == TenantLimits(max_connections=1)


@pytest.mark.parametrize(
    ("key", "value"), [("max_retained", -1), ("max_retained", "x"), ("max_publish_rate", 0)]
)
def test_a_wrong_value_is_refused_by_its_key(key, value):
    with pytest.raises(WrongValueError, match=rf"^{key}: got .* a whole number from \d to .*, or none"):
        limit_of(key, value)


def test_an_unknown_limit_is_refused_with_those_there_are():
    with pytest.raises(
        WrongValueError, match=r"limit: got 'max_cats', expected one of max_connections, .*max_packet_size"
    ):
        limit_of("max_cats", 1)


@pytest.mark.parametrize("name", ["a/b", "default", ""])
async def test_limits_are_of_a_tenant_that_can_be(world, name):
    with pytest.raises(InvalidTenantError, match="tenant"):
        await world.broker.tenants.set(name, {"max_retained": 1})


@pytest.mark.parametrize("row", [None, 7, {"max_connections": "x"}, {"max_of_later_release": 1}])
def test_a_row_that_cannot_be_read_limits_nothing(row):
    assert read_limits(row) == TenantLimits()
    assert {*LIMITS, "banned"} == set(TenantLimits.__struct_fields__)
