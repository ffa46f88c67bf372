"""Who watches that nobody else is harmed."""

import pytest

from gossamer.mqtt.codec import packets as p

V4, V5 = p.V4, p.V5


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
    client = await world.client("witness", version=V5, keep_alive=0)
    await client.subscribe("witness", qos=1)
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

    async def make(*, response_information=None, validate_payloads=False, **capabilities):
        return await make_world(
            mqtt={
                "capabilities": capabilities,
                "response_information": response_information,
                "validate_payloads": validate_payloads,
            }
        )

    return make
