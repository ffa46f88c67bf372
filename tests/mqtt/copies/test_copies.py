"""Copies of a node's sessions: what a quorum has is the session, as far as it is this node's to write."""

import asyncio

import pytest

from gossamer.basekv import NotWrittenError
from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V5, Subscription
from gossamer.mqtt.copies.rows import PIECE, Owner
from gossamer.mqtt.copies.succession import note_successor, token_of
from gossamer.mqtt.session.durable import DurableSession
from mqtt.copies.fake_nodes import FakeKeyValues, FakeNode, fill, new_node
from mqtt.fakes import FakeChannel
from mqtt.session.test_store import state


@pytest.mark.parametrize("size", [3, PIECE + 1, 3 * PIECE])
async def test_what_a_quorum_has_is_the_session(size):
    node = await new_node()
    session = node.begin()
    fill(session, size=size)
    await node.settle()
    found = await node.image()
    assert state(found) == state(session)
    assert found.once.dump() == session.once.dump()
    assert found.message_ids == session.message_ids
    assert (found.first, found.series) == (session.first, session.series)
    assert node.owner() == Owner("here", 1, 10)


async def test_only_changes_are_written_once_the_session_has_been():
    node = await new_node()
    session = node.begin()
    fill(session)
    await node.settle()
    node.keys.writes.clear()
    [packet_id, _] = session.inflight
    session.acked(packet_id)
    session.unsubscribe("t")
    await node.settle()
    [operations] = node.keys.writes
    assert len(operations) < 6
    assert state(await node.image()) == state(session)


async def test_large_values_are_replaced_and_deleted_with_all_their_parts():
    node = await new_node()
    session = node.begin()
    fill(session, size=2 * PIECE, count=4)
    await node.settle()
    session.refill(list(session.queue)[1:])
    await node.settle()
    assert state(await node.image()) == state(session)
    for packet_id in list(session.inflight):
        session.settle(packet_id)
    session.refill(())
    await node.settle()
    assert state(await node.image()) == state(session)
    assert sum(map(len, node.keys.rows.values())) < 5000


async def test_a_session_of_many_messages_is_written_in_writes_that_fit():
    node = await new_node()
    session = node.begin()
    fill(session, count=3000)
    await node.settle()
    assert len(node.keys.writes) > 3
    assert state(await node.image()) == state(session)


async def test_nothing_is_acknowledged_before_a_quorum_has_it():
    node = await new_node()
    node.keys.answers.clear()
    node.begin()
    done = []
    node.store.append_acked(b"", done.append)
    node.journal.commit()
    await asyncio.sleep(0)
    assert done == []
    node.keys.answers.set()
    await node.settle()
    assert done == [True]


async def test_sessions_that_were_there_before_there_were_replicas_are_copied_too():
    node = FakeNode(FakeKeyValues())
    node.enough = False
    session = node.begin()
    fill(session)
    await node.tick()
    assert node.keys.rows == {}
    assert node.store.committed == node.journal.committed
    node.enough = True
    await node.tick()
    assert state(await node.image()) == state(session)


async def test_a_session_that_ends_deletes_its_copy():
    node = await new_node()
    fill(node.begin(), size=PIECE)
    await node.settle()
    node.end()
    await node.settle()
    assert node.keys.rows == {}
    assert node.copies.count == 0
    assert node.store.committed == node.journal.committed


async def test_a_clean_start_replaces_the_copy():
    node = await new_node()
    fill(node.begin())
    await node.settle()
    node.end()
    session = node.begin(epoch=11)
    await node.settle()
    assert state(await node.image()) == state(session)
    assert node.owner() == Owner("here", 1, 11)


async def test_a_session_that_begins_while_the_copy_of_the_one_before_is_deleted_has_one():
    node = await new_node()
    fill(node.begin())
    await node.settle()
    node.end()
    node.keys.answers.clear()
    node.journal.commit()
    await asyncio.sleep(0)
    session = node.begin(epoch=11)
    node.keys.answers.set()
    await node.settle()
    await node.settle()
    assert state(await node.image()) == state(session)


async def test_a_session_on_its_way_here_holds_up_no_other():
    node = await new_node()
    moving = node.begin("moving")
    moving.gate = lambda _item: True
    node.begin("other")
    await node.settle()
    safe = []
    node.store.append_acked(b"", lambda _: safe.append("other"))
    assert safe == ["other"]
    # What comes last in the move is waited for: its client must not be told before.
    moving.gate = None
    moving.save()
    node.store.append_acked(b"", lambda _: safe.append("moving"))
    assert safe == ["other"]
    await node.settle()
    assert safe == ["other", "moving"]
    assert state(await node.image("moving")) == state(moving)


async def test_a_session_on_its_way_here_is_written_once_it_is_whole():
    node = await new_node()
    session = node.begin()
    session.gate = lambda _: True
    await node.settle()
    assert node.keys.rows == {}
    session.gate = None
    await node.tick()
    assert state(await node.image()) == state(session)


async def test_a_node_whose_write_was_done_although_it_seemed_to_fail_goes_on():
    node = await new_node()
    session = node.begin()
    await node.settle()
    write = node.keys.write

    async def lose(operations, expected=()):
        await write(operations, expected)
        raise NotWrittenError("no answer", unknown=True)

    node.keys.write = lose
    fill(session)
    await node.settle()
    node.keys.write = write
    session.unsubscribe("t")
    await node.tick()
    assert state(await node.image()) == state(session)
    assert not node.copies.behind


async def test_a_message_that_goes_from_the_queue_into_flight_is_always_in_one_of_them():
    """However large it is, and wherever between two writes its node dies."""
    node = await new_node()
    session = node.begin()
    session.attach(FakeChannel(), version=V5, receive_maximum=1)
    for number in range(6):
        parts = publish_parts(b"t", b"%d" % number * 2 * PIECE, flags=2, version=V5)
        if number:
            session.enqueue(*parts)
        else:
            session.send(*parts)
    await node.settle()
    session.window = 10
    session.pump()
    seen = []
    write = node.keys.write

    async def look(operations, expected=()):
        done = await write(operations, expected)
        found = await node.image()
        seen.append(
            len({tail[-1:] for _, tail, _ in found.queue} | {p[-1:] for p in found.inflight.values()})
        )
        return done

    node.keys.write = look
    await node.settle()
    assert len(seen) > 1
    assert set(seen) == {6}
    assert state(await node.image()) == state(session)


async def test_a_publisher_is_not_told_of_a_message_that_goes_into_flight_before_a_quorum_has_it():
    node = await new_node()
    session = node.begin()
    session.attach(FakeChannel(), version=V5, receive_maximum=1)
    session.window = 0
    await node.settle()
    node.keys.answers.clear()
    before, told = node.store.notes, []
    session.enqueue(*publish_parts(b"t", b"x", flags=2, version=V5))
    node.store.since(before).append_acked(b"", told.append)
    session.window = 1
    session.pump()
    node.journal.commit()
    await asyncio.sleep(0)
    assert told == []
    node.keys.answers.set()
    await node.settle()
    assert told == [True]
    assert state(await node.image()) == state(session)


async def test_an_unforeseen_error_does_not_end_the_copying_of_a_session():
    node = await new_node()
    session = node.begin()
    await node.settle()
    node.keys.error = ValueError("not foreseen")
    session.subscribe(Subscription("t", 1), None)
    await node.settle()
    node.keys.error = None
    for _ in range(5):
        await node.tick()
    assert state(await node.image()) == state(session)
    assert not node.copies.behind


async def test_a_message_that_came_after_a_crash_is_not_taken_for_one_that_the_copy_had():
    node = await new_node()
    session = node.begin()
    session.enqueue(*publish_parts(b"t", b"0", flags=2, version=V5))
    await node.settle()
    session.enqueue(*publish_parts(b"t", b"1", flags=2, version=V5))
    # The node dies before its disc has it.
    node.writes = False
    node.copies.tick()
    for _ in range(20):
        await asyncio.sleep(0)
    for task in node.tasks:
        task.cancel()
    node.journal.open = {}
    [found] = node.store.read(node.journal.read())
    again = DurableSession("c", fanout=node.fanout, store=node.store, max_queued=10)
    again.restore(found)
    again.enqueue(*publish_parts(b"t", b"2", flags=2, version=V5))
    # Another node has gone on from the copy meanwhile.
    image = await node.copies.find("c")
    moves = [token_of(node.store.one(image.rows), "here")]
    note_successor(again, moves, "here")
    assert [tail[-1:] for _, tail, _ in list(again.queue)[again.given :]] == [b"2"]


@pytest.mark.parametrize("count", [0, 3, 3000])
async def test_what_the_node_before_has_on_its_way_as_a_session_moves_is_not_left_in_its_copy(count):
    """It comes behind what the new node has read, and before that has taken the copy over."""
    before = await new_node()
    before.begin()
    await before.settle()
    here = FakeNode(before.keys, "next")
    assert here.copies.begun()
    session = here.begin(epoch=11)
    fill(session, count=count)
    scan, late = here.keys.scan, []

    async def read(start, end):
        rows = await scan(start, end)
        if not late:
            late.append(before.sessions["c"].enqueue(*publish_parts(b"t", b"late", flags=4, version=V5)))
            await before.settle()
        return rows

    here.keys.scan = read
    await here.settle()
    assert late
    assert state(await here.image()) == state(session)
    assert here.owner() == Owner("next", 1, 11)


async def test_a_copy_that_is_being_adopted_is_not_written_with_what_was_here_before():
    """Of an older session of that client, which ends when the adopted one is in its place."""
    there = await new_node(name="there")
    fill(there.begin(epoch=20))
    await there.settle()
    here = FakeNode(there.keys)
    assert here.copies.begun()
    here.begin(epoch=10)
    claimed = await here.copies.claim("c", there.owner(), 21)
    wanted = state(await there.image())
    here.sessions["c"].save()
    await here.settle()
    await here.tick()
    assert state(await here.image()) == wanted
    here.end()
    await here.settle()
    assert state(await here.image()) == wanted
    session = here.begin(epoch=21)
    here.copies.taken("c")
    await here.settle()
    assert state(await here.image()) == state(session)
    assert claimed.owner == here.owner()


async def test_a_copy_that_a_node_had_claimed_as_it_was_killed_is_better_than_what_its_disc_has():
    there = await new_node(name="there")
    fill(there.begin(epoch=20))
    await there.settle()
    before = FakeNode(there.keys)
    assert await before.copies.claim("c", there.owner(), 21) is not None
    wanted = state(await there.image())
    again = FakeNode(there.keys, creation=2)
    assert again.copies.begun()
    session = again.begin(epoch=10)
    session.born = 20
    session.save()
    await again.settle()
    await again.tick()
    assert state(await again.image()) == wanted
    assert again.copies.is_unsure("c")
