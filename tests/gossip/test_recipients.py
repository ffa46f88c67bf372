"""Packets in the hands of somebody between nodes, who has no key: he leads them astray, and lies about where
they come from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gossamer.gossip.steps as steps
from gossamer.gossip import Keyring, MemberDown, MemberMetadata, PacketRejected, cluster_key
from gossamer.gossip.keyring import answer_to, at_address, instance
from gossamer.gossip.swim.swim import Swim
from gossamer.gossip.wire import (
    Ack,
    Alive,
    Message,
    Mismatch,
    Nack,
    Ping,
    PingRequest,
    compound,
    decode,
    encode,
)
from gossamer.network import Address
from gossamer.testing import SimNetwork, seeds
from tests.gossip.nodes import Node, stop, whole, within
from tests.gossip.test_packets import alone, ids

ME, B, C, NEW = (f"{number:016x}" for number in (1, 2, 3, 4))
AT_B, AT_C, AT_HELPER = ("10.0.0.2", 7946), ("10.0.0.3", 7946), ("10.0.0.9", 7946)


# ---- the seal -------------------------------------------------------------------------------------------

addresses = st.tuples(st.ip_addresses().map(str), st.integers(0, 65535))
recipients = st.one_of(
    st.builds(at_address, addresses),
    st.builds(instance, ids),
    st.builds(answer_to, ids, st.integers(0, 2**64)),
)


@given(recipients, st.sets(recipients, max_size=4))
def test_a_packet_opens_for_its_recipient_only(to: bytes, others: set[bytes]) -> None:
    keys = Keyring([cluster_key("cookie")], env="test")
    packet = keys.seal(ME, 1, 0, b"body", to=to)
    assert keys.open(packet, own={to, *others}).body == b"body"
    with pytest.raises(PacketRejected, match="misdirected"):
        keys.open(packet, own=others - {to})


def test_a_recipient_cannot_be_written_over() -> None:
    keys = Keyring([cluster_key("cookie")], env="test")
    packet = keys.seal(ME, 1, 0, b"body", to=instance(B))
    at = packet.index(instance(B))
    with pytest.raises(PacketRejected, match="forged"):
        keys.open(packet[:at] + instance(C) + packet[at + 8 :], own={instance(C)})


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (("10.0.0.1", 7946), ("::ffff:10.0.0.1", 7946)),
        (("::1", 7946), ("0:0:0:0:0:0:0:1", 7946)),
        (("fe80::1%eth0", 7946), ("fe80::1", 7946)),
    ],
)
def test_one_address_has_one_name_however_a_socket_writes_it(one: Address, same: Address) -> None:
    assert at_address(one) == at_address(same)
    assert at_address(one) != at_address((one[0], 7947))


# ---- the state machine ----------------------------------------------------------------------------------


def machine() -> Swim:
    """Knows b and c."""
    swim = alone("a", ME)
    for name, member, address in (("b", B, AT_B), ("c", C, AT_C)):
        say(swim, Alive(name, member, *address, 1, MemberMetadata(name)), sender=member, source=address)
    return swim


def say(swim: Swim, message: Message, *, sender: str, source: Address) -> list[steps.Action]:
    return swim.step(steps.PacketReceived(sender, source, compound([encode(message)])), 0.0)


def ping_of(swim: Swim, target: str) -> Ping:
    """Run it until it pings."""
    while True:
        assert swim.deadline is not None
        for action in swim.step(steps.Tick(), swim.deadline):
            if isinstance(action, steps.SendPacket):
                for message in decode(action.body):
                    if isinstance(message, Ping) and message.target == target:
                        return message


@pytest.mark.parametrize(
    ("asked", "source", "sender", "believed"),
    [
        pytest.param(True, AT_B, NEW, True, id="a new process at the address of the member"),
        pytest.param(False, AT_B, NEW, False, id="answers nothing that was asked"),
        pytest.param(True, AT_C, NEW, False, id="from another address"),
        pytest.param(True, AT_B, C, False, id="a member that lives elsewhere, as if from there"),
        pytest.param(True, AT_B, B, False, id="the member itself"),
    ],
)
def test_an_identity_mismatch_is_believed_from_who_can_know(
    asked: bool, source: Address, sender: str, believed: bool
) -> None:
    swim = machine()
    sequence = ping_of(swim, B).sequence
    actions = say(swim, Mismatch(sequence if asked else sequence ^ 1), sender=sender, source=source)
    downs = [a.event for a in actions if isinstance(a, steps.Emit) and isinstance(a.event, MemberDown)]
    assert [(event.member.name, event.reason) for event in downs] == [("b", "replaced")] * believed


@pytest.mark.parametrize(("sender", "passed_on"), [(B, True), (C, False), (NEW, False)])
def test_a_helper_passes_on_the_answer_of_the_target_alone(sender: str, passed_on: bool) -> None:
    swim = machine()
    asked = say(swim, PingRequest(77, B, *AT_B), sender=NEW, source=AT_HELPER)
    (ping,) = [
        m for a in asked if isinstance(a, steps.SendPacket) for m in decode(a.body) if isinstance(m, Ping)
    ]
    answers = say(swim, Ack(ping.sequence), sender=sender, source=AT_B)
    acks = [a for a in answers if isinstance(a, steps.SendPacket) and Ack(77) in decode(a.body)]
    assert [(ack.address, ack.to) for ack in acks] == [(AT_HELPER, NEW)] * passed_on


@pytest.mark.parametrize("question", [Ping(7, ME), Ping(7, NEW), PingRequest(7, B, *AT_B)])
def test_an_answer_is_for_the_instance_that_asked_from_wherever(question: Message) -> None:
    """It may be behind another address than the one it names, so the address is no part of it."""
    swim = machine()
    sent = say(swim, question, sender=B, source=("192.0.2.7", 40_000))
    while not (
        answers := [a for a in sent if isinstance(a, steps.SendPacket) and a.address[0] == "192.0.2.7"]
    ):
        assert swim.deadline is not None
        sent = swim.step(steps.Tick(), swim.deadline)
    assert isinstance(decode(answers[0].body)[0], Ack | Nack | Mismatch)
    assert answers[0].to == B


# ---- servers --------------------------------------------------------------------------------------------


class Astray:
    """A node's network, where somebody takes its datagrams for ``victim`` to ``other``, and makes what
    ``other`` says look as if it came from ``victim``."""

    def __init__(self, inner: Any, victim: Address, other: Address) -> None:
        self._inner = inner
        self._victim = victim
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open_datagram(self, factory: Any, address: Address) -> Any:
        transport, protocol = await self._inner.open_datagram(factory, address)
        receive, send = protocol.datagram_received, transport.sendto
        protocol.datagram_received = lambda data, source: receive(
            data, self._victim if source == self._other else source
        )
        transport.sendto = lambda data, to: send(data, self._other if to == self._victim else to)
        return transport, protocol


@seeds(3)
async def test_a_ping_led_astray_makes_no_living_member_a_dead_one(sim: SimNetwork) -> None:
    a, b, c = [Node(sim, number) for number in (1, 2, 3)]
    a.network = Astray(a.network, b.address, c.address)  # type: ignore[assignment]
    await a.start()
    for node in (b, c):
        await node.start(a)
    await within(10, whole(a, b, c))
    await asyncio.sleep(60)
    assert a.view.counters["rejected.misdirected"] + c.view.counters["rejected.misdirected"] > 0
    assert [node.downs() for node in (a, b, c)] == [0, 0, 0]
    assert whole(a, b, c)()
    await stop(a, b, c)
