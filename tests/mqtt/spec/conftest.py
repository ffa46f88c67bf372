"""Versions, tables of packets that break a rule, and who watches that nobody else is harmed."""

import pytest

from gossamer.mqtt.codec import packets as p

from .statements import cites

V4, V5 = p.V4, p.V5
BOTH = pytest.mark.parametrize("version", [V4, V5])
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


def breaking(table, table_5):
    """Run a test with each packet of a table, in both versions, and each of one for 5.0 alone.

    A row: its name, the statements of 3.1.1 and of 5.0 (of 5.0 alone) that it breaks, what makes the packet
    of a version, and the reason code to end with.
    """
    cases = [
        pytest.param(version, make, reason, id=f"{name}-{version}", marks=cites(v4=v4, v5=v5))
        for version in (V4, V5)
        for name, (v4, v5, make, reason) in table.items()
    ]
    cases += [
        pytest.param(V5, make, reason, id=f"{name}-5", marks=cites(v5=v5))
        for name, (v5, make, reason) in table_5.items()
    ]
    return pytest.mark.parametrize(("version", "make", "reason"), cases)


class Witness:
    """A client that must not notice anything; :meth:`is_well` has it served."""

    def __init__(self, world, client):
        self._world = world
        self._client = client

    async def is_well(self):
        assert not self._client.closed
        self._world.broker.publish("witness", b"alive", qos=1)
        got = [x for x in await self._client.got() if isinstance(x, p.Publish)]
        assert [x.payload for x in got] == [b"alive"]
        self._client.send(*(p.Puback(x.packet_id) for x in got))


@pytest.fixture
async def witness(world):
    client = await world.subscriber("witness", "witness", qos=1, version=V5, keep_alive=0)
    return Witness(world, client)


@pytest.fixture
def is_ended(world):
    """How a client was told to go: 5.0 with a reason code, 3.1.1 without a word."""

    async def ended(client, version, reason):
        got = await client.got()
        assert client.closed, f"still there; it was sent {got}"
        if version == V4:
            assert [x for x in got if isinstance(x, p.Disconnect)] == []
            return None
        goodbye = got[-1]
        assert isinstance(goodbye, p.Disconnect | p.Connack), got
        assert goodbye.reason == reason, hex(goodbye.reason)
        return goodbye

    return ended


@pytest.fixture
async def capable(make_world):
    """A world whose ``mqtt`` section says other things than the default: capabilities, and what else."""

    async def make(*, response_information=None, validate_payloads=False, authenticator=None, **capabilities):
        return await make_world(
            authenticator=authenticator,
            mqtt={
                "capabilities": capabilities,
                "response_information": response_information,
                "validate_payloads": validate_payloads,
            },
        )

    return make
