"""A client whose session no quorum has: refused where CONNACK can still say so, disconnected later."""

from types import SimpleNamespace

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from mqtt.spec.test_persistent import PersistentWorld, returns_to_a_full_disc


@pytest.fixture
def world_class():
    return PersistentWorld


class NoQuorum:
    """Of persistent sessions no quorum says where they are."""

    def __init__(self):
        self.contests = SimpleNamespace(stamp=lambda _client_id: 1)
        self.asked = []

    def elsewhere(self, client_id, *, clean, lasts):
        self.asked.append((clean, lasts))
        return lasts

    async def fetch(self, client_id, *, clean, lasts, claimant):
        return "unavailable"

    def own(self, session, stamp):
        pass


@pytest.mark.parametrize(("version", "reason"), [(p.V4, 3), (p.V5, 0x88)])
async def test_connect_is_refused_as_the_version_says_it(world, version, reason):
    world.broker.admission.takeovers = NoQuorum()
    client = world.dial()
    assert (await client.connect("c", version=version, clean_start=False)).reason == reason
    assert client.closed
    assert world.broker.sessions == {}


async def test_a_transient_session_is_none_of_a_quorums_business(world):
    world.broker.admission.takeovers = takeovers = NoQuorum()
    kept = Properties(session_expiry=10)
    await world.client("c", version=p.V5)
    await world.client("d")
    client = world.dial()
    assert (await client.connect("e", version=p.V5, properties=kept)).reason == 0x88
    assert takeovers.asked == [(True, False), (True, False), (True, True)]


@pytest.mark.parametrize(("version", "said"), [(p.V4, None), (p.V5, 0x89)])
async def test_a_client_in_service_is_disconnected(world, version, said):
    client = await world.client("c", version=version, clean_start=False)
    client.channel.turn_away("no quorum")
    assert [packet.reason for packet in await client.got()] == ([] if said is None else [said])
    assert client.closed


@pytest.mark.parametrize(("version", "reason"), [(p.V4, 3), (p.V5, 0x88)])
async def test_before_connack_it_is_told_by_that_and_its_will_stays_unpublished(world, version, reason):
    listener = await world.subscriber("listener", "w")
    will = p.Will(topic=b"w", payload=b"")
    client = await returns_to_a_full_disc(world, version=version, will=will)
    client.version = version
    client.channel.turn_away("no quorum")
    [connack] = await client.got()
    assert (type(connack), connack.reason, connack.session_present) == (p.Connack, reason, False)
    assert client.closed
    assert await listener.got() == []
