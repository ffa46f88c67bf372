"""Copies of a node's sessions: what a quorum has is the session, as far as it is this node's to write."""

import asyncio
from collections import Counter
from functools import partial

import pytest

from gossamer.basekv import Delete, DeleteRange, NotWrittenError, Put, RangeFullError
from gossamer.basekv.values import MAX_KEY, MAX_OPERATIONS, MAX_VALUE, MAX_WRITE
from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V5, Subscription
from gossamer.mqtt.copies import rows as layout
from gossamer.mqtt.copies.copies import WRITERS, SessionCopies
from gossamer.mqtt.copies.machine import PATIENCE
from gossamer.mqtt.copies.rows import OWNER_SUFFIX, PIECE, Owner
from gossamer.mqtt.copies.succession import note_successor, token_of
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import base_of
from gossamer.mqtt.session.durable import DurableSession
from mqtt.fakes import FakeChannel, FakeFanout, FakeJournal
from mqtt.session.test_store import state, store_on


class FakeKeyValues:
    """One range in memory, which all nodes of a test share."""

    def __init__(self):
        self.rows = {}
        self.writes = []
        self.error = None
        """What a write is answered with instead."""
        self.answers = asyncio.Event()
        self.answers.set()

    def range_of(self, key):
        return 0

    async def write(self, operations, expected=()):
        expected = list(expected)
        assert 0 < len(operations) <= MAX_OPERATIONS - len(expected)
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        if any(self.rows.get(one.key) != one.value for one in expected):
            return False
        self.writes.append(operations)
        puts = [one for one in operations if isinstance(one, Put)]
        assert sum(len(put.key) + len(put.value) for put in puts) <= MAX_WRITE
        for operation in operations:
            match operation:
                case Put(key, value):
                    assert len(key) <= MAX_KEY
                    assert len(value) <= MAX_VALUE
                    self.rows[key] = value
                case Delete(key):
                    self.rows.pop(key, None)
                case DeleteRange(start, end):
                    for key in [key for key in self.rows if start <= key < end]:
                        del self.rows[key]
        return True

    async def scan(self, start, end):
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return sorted((key, value) for key, value in self.rows.items() if start <= key < end)


class FakeNode:
    """A node with sessions on disc, which are copied."""

    def __init__(self, keys, name="here", creation=1):
        self.keys, self.name = keys, name
        self.fanout, self.journal = FakeFanout(), FakeJournal()
        self.store = store_on(self.journal, self.fanout)
        self.sessions = {}
        self.enough = True
        self.writes = True
        """Whether its disc does."""
        self.tasks = []
        self.copies = self.store.copies = SessionCopies(
            keys,
            self.sessions,
            node=name,
            creation=creation,
            spawn=self.spawn,
            now=self.fanout.now,
            enough=lambda: self.enough,
            released=self.store.released,
            on_disc=self.on_disc,
        )
        self.store.on_commit = self.copies.committed_here

    async def on_disc(self):
        if not self.writes:
            await asyncio.Event().wait()
        self.journal.commit()

    def spawn(self, body, *args, label):
        self.tasks.append(asyncio.ensure_future(body(*args)))

    async def settle(self):
        """Commit, and wait for all writes that this leads to."""
        self.journal.commit()
        while self.tasks:
            await self.tasks.pop()

    async def tick(self, after=1.0):
        self.fanout.at += after
        self.copies.tick()
        await self.settle()

    def begin(self, client_id="c", *, epoch=10):
        session = DurableSession(client_id, fanout=self.fanout, store=self.store, max_queued=100_000)
        session.version, session.expiry, session.epoch, session.born = V5, 100, epoch, epoch
        self.sessions[client_id] = session
        session.save()
        return session

    def end(self, client_id="c", *, elsewhere=False):
        session = self.sessions.pop(client_id)
        if elsewhere:
            self.store.leave(client_id)
        session.forget()

    async def image(self, client_id="c"):
        """The session that another node would begin with; None: there is no copy."""
        image = await self.copies.find(client_id)
        if image is None:
            return None
        stored = self.store.one(image.rows)
        session = DurableSession(client_id, fanout=self.fanout, store=self.store, max_queued=100_000)
        session.read_only()
        session.restore(stored)
        return session

    def owner(self, client_id="c"):
        value = self.keys.rows.get(layout.prefix_of(client_id) + OWNER_SUFFIX)
        return None if value is None else layout.owner_in({OWNER_SUFFIX: value})


def fill(session, *, size=3, count=5):
    """Give a session something of each kind."""
    session.subscribe(Subscription("a/" * 400 + "b", 2), 7)
    session.subscribe(Subscription("t", 1), None)
    session.attach(FakeChannel(), version=V5, receive_maximum=2)
    first = base_of("there", 3) + 300
    for number in range(count):
        message = Message(b"t", b"%d" % number * size, qos=1 + number % 2)
        message.id = first + number
        assert session.admits(message)
        session.take(message, qos=message.qos, retain=False)
    session.unreleased(9, first + 100)
    session.save()


async def new_node(**options):
    node = FakeNode(FakeKeyValues(), **options)
    assert node.copies.begun()
    return node


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


async def test_where_no_quorum_answers_the_disc_alone_is_waited_for_and_all_is_written_later():
    node = await new_node()
    session = node.begin()
    await node.settle()
    node.keys.error = NotWrittenError("no quorum", unknown=True)
    session.subscribe(Subscription("t", 1), None)
    done = []
    node.store.append_acked(b"", done.append)
    await node.settle()
    await node.tick(1.0)
    assert (done, node.store.is_behind("c")) == ([], False)
    await node.tick(PATIENCE)
    assert (done, node.store.is_behind("c")) == ([True], True)
    level = []
    node.store.when_level("c", partial(level.append, True))
    node.keys.error = None
    await node.tick()
    assert (level, node.copies.behind) == ([True], 0)
    assert state(await node.image()) == state(session)


async def test_qos_2_waits_for_the_quorum_that_lacks_something_and_qos_1_does_not():
    node = await new_node()
    session = node.begin()
    session.attach(FakeChannel(), version=V5, receive_maximum=10)
    await node.settle()
    node.keys.error = NotWrittenError("no quorum", unknown=True)
    session.save()
    await node.settle()
    await node.tick(PATIENCE)
    session.send(*publish_parts(b"t", b"1", flags=2, version=V5))
    session.send(*publish_parts(b"t", b"2", flags=4, version=V5))
    await node.settle()
    assert [packet[0] for packet in session.out] == [0x32]
    node.keys.error = None
    await node.tick()
    assert [packet[0] for packet in session.out] == [0x32, 0x34]


async def test_what_another_node_has_taken_over_is_not_written():
    node = await new_node()
    session = node.begin()
    await node.settle()
    other = FakeNode(node.keys, "there")
    assert await other.copies.claim("c", node.owner(), 11) is not None
    before = dict(node.keys.rows)
    fill(session)
    await node.settle()
    assert node.keys.rows == before
    assert node.store.committed == node.journal.committed
    assert node.copies.is_unsure("c")
    # Nor what comes then, and nothing waits for it.
    session.subscribe(Subscription("late", 1), None)
    await node.settle()
    assert node.keys.rows == before
    assert node.store.committed == node.journal.committed


async def test_a_copy_of_a_lower_claim_is_taken_back():
    node = await new_node()
    session = node.begin()
    await node.settle()
    other = FakeNode(node.keys, "there")
    assert await other.copies.claim("c", node.owner(), 11) is not None
    session.subscribe(Subscription("t", 1), None)
    await node.settle()
    session.epoch = 12
    session.save()
    await node.settle()
    assert node.owner() == Owner("here", 1, 12)
    assert state(await node.image()) == state(session)


async def test_of_two_nodes_that_claim_a_copy_one_has_it():
    node = await new_node()
    node.begin()
    await node.settle()
    found = node.owner()
    others = [FakeNode(node.keys, name) for name in ("one", "two")]
    images = await asyncio.gather(*(other.copies.claim("c", found, 11) for other in others))
    assert sum(image is not None for image in images) == 1


async def test_a_session_that_ends_deletes_its_copy():
    node = await new_node()
    fill(node.begin(), size=PIECE)
    await node.settle()
    node.end()
    await node.settle()
    assert node.keys.rows == {}
    assert node.copies.count == 0
    assert node.store.committed == node.journal.committed


@pytest.mark.parametrize("busy", ["nothing", "due", "begun", "writing"])
async def test_a_session_that_goes_elsewhere_leaves_its_copy(busy):
    """Whatever is on its way of it: what it was is what the other node takes over."""
    node = await new_node()
    session = node.begin()
    fill(session)
    await node.settle()
    before = dict(node.keys.rows)
    if busy != "nothing":
        if busy == "due":
            # All writers have something to do.
            node.copies._writers = Counter({0: WRITERS})
        node.keys.answers.clear()
        session.subscribe(Subscription("late", 1), None)
        node.journal.commit()
        if busy == "writing":
            await asyncio.sleep(0)
    node.end(elsewhere=True)
    node.copies._writers = Counter({0: len(node.tasks)})
    node.keys.answers.set()
    await node.settle()
    await node.tick()
    await node.tick()
    assert before.items() <= node.keys.rows.items()
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


async def test_a_session_on_its_way_here_is_written_once_it_is_whole():
    node = await new_node()
    session = node.begin()
    session.gate = lambda _: True
    await node.settle()
    assert node.keys.rows == {}
    session.gate = None
    await node.tick()
    assert state(await node.image()) == state(session)


async def test_a_range_that_is_full_is_left_as_it_is():
    node = await new_node()
    session = node.begin()
    await node.settle()
    node.keys.error = RangeFullError(0)
    fill(session)
    await node.settle()
    await node.tick(PATIENCE)
    assert node.copies.is_behind("c")
    node.keys.error = None
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


async def behind(node):
    """A connected session of which the quorum, which does not answer, lacks something."""
    session = node.begin()
    session.attach(FakeChannel(), version=V5, receive_maximum=10)
    await node.settle()
    node.keys.error = NotWrittenError("no quorum", unknown=True)
    session.save()
    await node.settle()
    await node.tick(PATIENCE)
    assert node.store.is_behind("c")
    return session


async def test_qos_0_is_not_kept_for_a_client_whose_session_is_behind():
    node = await new_node()
    session = await behind(node)
    session.take(Message(b"t", b"first", qos=2), qos=2, retain=False)
    for number in range(2000):
        session.take(Message(b"t", b"%d" % number, qos=0), qos=0, retain=False)
    assert len(session._held) < 100


async def test_connections_that_have_ended_wait_for_no_quorum():
    node = await new_node()
    session = await behind(node)
    session.take(Message(b"t", b"first", qos=2), qos=2, retain=False)
    await node.settle()
    for _ in range(20):
        session.detach()
        session.attach(FakeChannel(), version=V5, receive_maximum=10)
        session.resume()
    assert len(node.store._until_level["c"]) < 3


async def test_what_waits_for_a_quorum_is_not_done_once_another_node_has_the_session():
    """Its client has published the message again there, as a new one."""
    node = await new_node()
    await behind(node)
    passed = []
    node.store.when_level("c", partial(passed.append, True))
    node.keys.error = None
    other = FakeNode(node.keys, "there")
    assert await other.copies.claim("c", node.owner(), 11) is not None
    await node.tick()
    assert passed == []


async def test_a_session_that_another_node_has_is_not_this_ones_again_before_it_is_written():
    """It is noted here once more, that it has a successor, say: what waits is still done there."""
    node = await new_node()
    session = node.begin()
    await node.settle()
    other = FakeNode(node.keys, "there")
    assert await other.copies.claim("c", node.owner(), 11) is not None
    passed = []
    session.unreleased(1, base_of("here", 1) + 1)
    node.store.append_acked(b"", lambda _: node.store.when_level("c", lambda: passed.append(1)))
    node.store.leave("c")
    session.save()
    assert node.store.is_usurped(session)
    await node.settle()
    assert (passed, node.store.is_usurped(session)) == ([], True)
    # Its client comes back with a higher claim.
    session.epoch = 12
    session.save()
    assert node.store.is_usurped(session)
    await node.settle()
    assert (node.owner().node, node.store.is_usurped(session)) == ("here", False)


async def test_what_waits_is_told_when_its_session_goes_elsewhere():
    node = await new_node()
    session = await behind(node)
    told = []
    node.store.when_level("c", lambda: told.append(node.store.is_usurped(session)))
    node.store.leave("c")
    assert told == [True]


async def test_a_session_that_began_without_the_copy_does_not_delete_what_only_that_has():
    """The range did not answer in time, and the node that had the session is down."""
    node = await new_node()
    session = node.begin()
    session.enqueue(*publish_parts(b"t", b"acknowledged", flags=2, version=V5))
    await node.settle()
    other = FakeNode(node.keys, "there")
    assert other.copies.begun()
    other.begin(epoch=11).clean = False
    await other.settle()
    await other.tick()
    assert any(b"acknowledged" in value for value in node.keys.rows.values())


async def test_a_range_that_does_not_answer_does_not_hold_up_the_others():
    node = await new_node()
    silent = {layout.prefix_of(f"silent{number}") for number in range(2 * WRITERS)}
    node.keys.range_of = lambda key: int(key not in silent)
    scan, never = node.keys.scan, asyncio.Event()

    async def scan_or_hang(start, end):
        if start in silent:
            await never.wait()
        return await scan(start, end)

    node.keys.scan = scan_or_hang
    for number in range(2 * WRITERS):
        node.begin(f"silent{number}")
    session = node.begin()
    node.journal.commit()
    for _ in range(4):
        node.fanout.at += 1
        node.copies.tick()
        for _ in range(20):
            await asyncio.sleep(0)
    for task in node.tasks:
        task.cancel()
    found = await node.image()
    assert found is not None
    assert state(found) == state(session)
