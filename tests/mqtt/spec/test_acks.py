"""PUBACK, PUBREC, PUBREL and PUBCOMP (3.4 to 3.7): what may stand in them, and what may be left out."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt import packets as p
from gossamer.mqtt.reasons import PUBACK_REASONS, PUBREL_REASONS

from .conftest import V5
from .statements import keeps
from .wire import packet, props, s, u16

ACKS = {0x40: PUBACK_REASONS, 0x50: PUBACK_REASONS, 0x62: PUBREL_REASONS, 0x70: PUBREL_REASONS}


@keeps(v5="3.4.2-1 3.5.2-1 3.6.2-1 3.7.2-1")
@pytest.mark.parametrize("first", ACKS)
async def test_reason_codes_that_an_acknowledgement_cannot_have_are_malformed(
    world, witness, is_ended, first
):
    for reason in range(256):
        client = await world.client("c", version=V5)
        client.raw(packet(first, u16(5) + bytes((reason,))))
        if reason in ACKS[first]:
            await client.got()
            assert not client.closed
        else:
            await is_ended(client, V5, ReasonCode.MALFORMED_PACKET)
    await witness.is_well()


@keeps(v5="3.6.2-1 3.7.2-1 2.2.1-5")
async def test_what_nobody_knows_is_answered_with_that(world):
    client = await world.client("c", version=V5)
    client.send(p.Pubrec(5), p.Pubrel(6), p.Puback(7), p.Pubcomp(8))
    assert await client.got() == [p.Pubrel(5, 0x92), p.Pubcomp(6, 0x92)]
    await world.settle()
    assert bytes(client.transport.written).endswith(b"\x62\x03\0\5\x92" + b"\x70\x03\0\6\x92")
    old = await world.client("old")
    old.send(p.Pubrec(5), p.Pubrel(6), p.Puback(7), p.Pubcomp(8))
    assert await old.got() == [p.Pubrel(5), p.Pubcomp(6)]


@keeps(v5="2.2.2-1")
@pytest.mark.parametrize("tail", [b"", b"\0", b"\0\0", b"\0" + props(5, b"\x1f" + s("because"))])
async def test_acknowledgements_may_leave_out_what_is_nothing(world, tail):
    sub = await world.client("s", version=V5)
    await sub.subscribe("t", qos=1)
    world.broker.publish("t", b"1", qos=1)
    [got] = await sub.got()
    sub.raw(packet(0x40, u16(got.packet_id) + tail))
    await world.settle()
    assert world.broker.sessions["s"].inflight == {}
