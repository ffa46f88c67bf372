"""What is acknowledged waits for the quorums that it needs, and for no other."""

import asyncio

import pytest

from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V5, Subscription
from gossamer.mqtt.copies.machine import PATIENCE
from gossamer.mqtt.flow.ranges import MANY
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import base_of
from mqtt.copies.fake_nodes import new_node
from mqtt.fakes import FakeChannel

SUBACK = b"\x90\x04\x00\x01\x00\x01"
STUCK, FREE = "n0", "n5"
"""Clients whose copies are in the last of four ranges, and in the first."""


async def node_of_two():
    """A node with a session in each of two ranges, of which one has lost its leader."""
    node = await new_node(ranges=4)
    sessions = {client_id: node.begin(client_id) for client_id in (STUCK, FREE)}
    await node.settle()
    assert [node.copies.range_of(client_id) for client_id in (STUCK, FREE)] == [3, 0]
    node.keys.stick(3)
    return node, sessions


async def turns(node):
    """Commit, and let those write that can."""
    node.journal.commit()
    for _ in range(20):
        await asyncio.sleep(0)


async def mend(node):
    node.keys.stuck.pop(3).set()
    await node.settle()


def publish(node, *sessions):
    """A message for sessions; what it waits for, decided as it is routed and as a plan has it."""
    before = node.store.notes
    for session in sessions:
        session.enqueue(*publish_parts(b"t", b"x", flags=2, version=V5))
    return node.store.since(before), node.store.of(sessions)


@pytest.mark.parametrize("planned", [False, True])
async def test_a_message_waits_for_the_ranges_of_those_it_is_for(planned):
    node, sessions = await node_of_two()
    safe = []
    for names in ((STUCK,), (FREE,), (FREE, STUCK)):
        waits = publish(node, *(sessions[name] for name in names))[planned]
        assert waits.peer == node.store.peer
        waits.append_acked(b"", lambda done, names=names: safe.append((names, done)))
    assert safe == []
    await turns(node)
    assert safe == [((FREE,), True)]
    await mend(node)
    assert sorted(safe) == sorted([((FREE,), True), ((STUCK,), True), ((FREE, STUCK), True)])


async def test_no_message_is_safe_before_the_disc_has_it_whatever_its_range_does():
    node, sessions = await node_of_two()
    safe = []
    for waits in publish(node, sessions[FREE]):
        waits.append_acked(b"", safe.append)
    for _ in range(20):
        await asyncio.sleep(0)
    assert safe == []
    await turns(node)
    assert safe == [True, True]


async def test_a_message_that_a_session_has_taken_already_waits_for_that():
    """It may have come by another way a moment ago, and not be safe yet."""
    node, sessions = await node_of_two()
    safe = []
    for name in (STUCK, FREE):
        for _ in range(2):
            message = Message(b"t", b"x", qos=2)
            message.id = base_of("there", 3)
            before = node.store.notes
            if sessions[name].admits(message):
                sessions[name].take(message, qos=2, retain=False)
            node.store.since(before).append_acked(b"", lambda _, name=name: safe.append(name))
    await turns(node)
    assert safe == [FREE, FREE]
    await mend(node)
    assert safe == [FREE, FREE, STUCK, STUCK]


async def test_a_client_hears_what_its_own_range_has():
    node, sessions = await node_of_two()
    for session in sessions.values():
        session.attach(FakeChannel(), version=V5, receive_maximum=10)
        session.subscribe(Subscription("t", 1), None)
        session.push(SUBACK)
    await turns(node)
    assert (sessions[STUCK].out, sessions[FREE].out) == ([], [SUBACK])
    await mend(node)
    assert sessions[STUCK].out == [SUBACK]


async def test_those_that_wait_for_a_range_are_called_in_order_whatever_becomes_of_one():
    node, sessions = await node_of_two()
    safe = []

    def fail(_done):
        raise RuntimeError("its connection is gone")

    for told in (lambda _: safe.append(1), fail, lambda _: safe.append(2)):
        publish(node, sessions[STUCK])[0].append_acked(b"", told)
    await turns(node)
    assert safe == []
    await mend(node)
    assert safe == [1, 2]


async def test_what_names_no_session_waits_for_all_ranges():
    node, sessions = await node_of_two()
    safe = []
    publish(node, sessions[STUCK], sessions[FREE])
    assert node.store.of([sessions[FREE]] * (MANY + 1)) is node.store
    node.store.append_acked(b"", safe.append)
    node.store.disc.append_acked(b"", lambda _: safe.append("disc"))
    await turns(node)
    assert safe == ["disc"]
    assert node.store.committed < node.store.committed_of(FREE)
    await mend(node)
    assert safe == ["disc", True]


async def test_a_range_that_stays_without_a_leader_is_waited_for_as_long_as_before():
    node, sessions = await node_of_two()
    safe = []
    publish(node, sessions[STUCK])[0].append_acked(b"", safe.append)
    await turns(node)
    node.fanout.at += PATIENCE - 0.1
    node.copies.tick()
    assert safe == []
    node.fanout.at += 0.2
    node.copies.tick()
    assert (safe, node.store.is_behind(STUCK), node.store.is_behind(FREE)) == ([True], True, False)
    await mend(node)
