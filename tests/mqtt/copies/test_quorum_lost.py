"""Sessions of which a quorum does not take everything: it is out of reach, full, or another node's."""

import asyncio
from collections import Counter
from functools import partial

import pytest

from gossamer.basekv import NotWrittenError, Put, RangeFullError
from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.packets import V5, Subscription
from gossamer.mqtt.copies import rows as layout
from gossamer.mqtt.copies.copies import WRITERS
from gossamer.mqtt.copies.machine import PATIENCE, REST
from gossamer.mqtt.copies.rows import Owner
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import base_of
from mqtt.copies.fake_nodes import FakeNode, fill, new_node
from mqtt.fakes import FakeChannel
from mqtt.session.test_store import state

SUBACK = b"\x90\x04\x00\x01\x00\x01"


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
    copy = node.copies.copy_of("c")
    assert (copy.state, copy.turned) == ("behind", node.fanout.at)
    level = []
    node.store.when_level("c", partial(level.append, True))
    node.keys.error = None
    await node.tick()
    assert (level, node.copies.behind) == ([True], 0)
    assert (copy.state, copy.turned) == ("level", node.fanout.at)
    await node.tick()
    assert copy.turned < node.fanout.at
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


async def test_a_suback_waits_for_the_disc_and_not_for_qos_2_that_waits_for_the_quorum():
    node = await new_node()
    session = node.begin()
    session.attach(FakeChannel(), version=V5, receive_maximum=10)
    await node.settle()
    node.keys.error = NotWrittenError("no quorum", unknown=True)
    session.save()
    await node.settle()
    await node.tick(PATIENCE)
    session.send(*publish_parts(b"t", b"2", flags=4, version=V5))
    await node.settle()
    session.subscribe(Subscription("t", 1), None)
    session.push(SUBACK)
    assert (session.out, session.holds_suback) == ([], True)
    await node.settle()
    assert (session.out, session.holds_suback) == ([SUBACK], False)
    assert session.channel.answered == node.store.wall()
    node.keys.error = None
    await node.tick()
    assert [packet[0] for packet in session.out] == [0x90, 0x34]


@pytest.mark.parametrize("taken", [False, True])
async def test_what_a_quorum_got_before_a_node_slept_is_done_only_if_nobody_began_with_it(taken):
    node = await new_node()
    session = node.begin()
    await node.tick()
    session.subscribe(Subscription("t", 1), None)
    passed = []
    node.store.append_acked(b"", lambda _safe: node.store.when_level("c", partial(passed.append, True)))
    write, woke = node.keys.write, asyncio.Event()

    async def write_and_sleep(operations, expected=()):
        done = await write(operations, expected)
        node.keys.write = write
        await woke.wait()
        return done

    node.keys.write = write_and_sleep
    node.journal.commit()
    await asyncio.sleep(0.01)
    if taken:
        claimed = Owner("there", 1, 11)
        node.keys.rows[layout.prefix_of("c") + layout.OWNER_SUFFIX] = layout.encoded(claimed)
    node.fanout.at += 4
    woke.set()
    await node.settle()
    assert node.copies.is_usurped("c") == taken
    assert passed == [] if taken else passed == [True]


class TurnedAway(FakeChannel):
    """A connection that ends when it is turned away; what waited for a quorum had not gone on by then."""

    def __init__(self, node, session):
        self.node, self.session, self.went_on = node, session, []

    def turn_away(self, detail):
        self.went_on.append(list(self.session.out))
        self.session.channel = None


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("fails", ["at once", "never answers"])
async def test_a_client_whose_session_is_behind_is_turned_away_before_it_goes_on_alone(strict, fails):
    """Where no client is to be served without a quorum; one whose session has not changed stays."""
    node = await new_node(strict=strict)
    sessions = [node.begin(client_id) for client_id in ("c", "idle")]
    await node.settle()
    for session in sessions:
        session.attach(TurnedAway(node, session), version=V5, receive_maximum=10)
    changed, idle = [session.channel for session in sessions]
    if fails == "at once":
        node.keys.error = NotWrittenError("no quorum", unknown=True)
    else:
        node.keys.answers.clear()
    sessions[0].subscribe(Subscription("t", 1), None)
    sessions[0].push(b"\x90suback")
    done = []
    node.store.append_acked(b"", done.append)
    node.journal.commit()
    await asyncio.sleep(0)
    assert (changed.went_on, done) == ([], [])
    node.fanout.at += PATIENCE
    node.copies.tick()
    assert changed.went_on == ([[]] if strict else [])
    assert (idle.went_on, sessions[1].channel) == ([], idle)
    # Publishers to it have their answers: the disc has what they sent.
    assert done == [True]
    assert node.copies.copy_of("c").behind
    node.keys.error = None
    node.keys.answers.set()
    await node.settle()
    await node.tick()
    assert not node.copies.copy_of("c").behind


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


@pytest.mark.parametrize("meanwhile", ["nothing", "claimed again"])
async def test_what_was_claimed_is_not_read_again_to_be_written(meanwhile):
    node = await new_node()
    fill(node.begin())
    await node.settle()
    other = FakeNode(node.keys, "there")
    await other.tick()
    assert await other.copies.claim("c", node.owner(), 11) is not None
    session = other.begin(epoch=11)
    session.born = 10
    session.subscribe(Subscription("t", 1), None)
    await other.settle()
    if meanwhile == "claimed again":
        assert await FakeNode(node.keys, "third").copies.claim("c", node.owner(), 12) is not None
        session.epoch = 13
    before, done = node.keys.scans, []
    other.copies.taken("c", other.store.ticket)
    other.store.of((session,)).append_acked(b"", done.append)
    assert done == []
    await other.settle()
    assert done == [True]
    assert node.keys.scans - before == (meanwhile != "nothing")
    assert node.owner() == Owner("there", 1, session.epoch)
    assert state(await other.image()) == state(session)


async def test_of_two_nodes_that_claim_a_copy_one_has_it():
    node = await new_node()
    node.begin()
    await node.settle()
    found = node.owner()
    others = [FakeNode(node.keys, name) for name in ("one", "two")]
    images = await asyncio.gather(*(other.copies.claim("c", found, 11) for other in others))
    assert sum(image is not None for image in images) == 1


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


async def test_a_session_for_which_there_is_no_room_is_told_of_and_copied_once_there_is():
    node = await new_node()
    session = node.begin()
    await node.settle()
    write, full = node.keys.write, True

    async def write_or_refuse(operations, expected=()):
        if full and any(isinstance(one, Put) for one in operations):
            raise RangeFullError(0)
        return await write(operations, expected)

    node.keys.write = write_or_refuse
    fill(session)
    await node.settle()
    await node.tick()
    assert (node.copies.uncopied, node.copies.uncopied_since) == (1, node.fanout.now())
    assert await node.image() is None
    full = False
    await node.tick(REST)
    await node.tick()
    assert (node.copies.uncopied, node.copies.uncopied_since) == (0, 0.0)
    assert state(await node.image()) == state(session)


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


async def succeeded():
    """A node, its session, which another has taken over from the copy, and what was passed on of that. A
    publish of QoS 2 waits for the quorum; its client sends it again at the other node."""
    node = await new_node()
    session = node.begin()
    await node.settle()
    other = FakeNode(node.keys, "there")
    assert await other.copies.claim("c", node.owner(), 11) is not None
    passed = []
    session.unreleased(1, base_of("here", 1) + 1)
    node.store.append_acked(b"", lambda _: node.store.when_level("c", lambda: passed.append(1)))
    return node, session, passed


async def test_a_session_that_another_node_has_is_not_this_ones_again_before_it_is_written():
    """A row of it that changes here, say that it has a successor, does not make it this node's."""
    node, session, passed = await succeeded()
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


async def test_what_waits_in_a_session_that_is_being_given_away_is_not_done_where_the_copy_is_anothers():
    """A node that was paused is asked for a session by one that has gone on with the copy since."""
    node, session, passed = await succeeded()
    session.gate = lambda _item: True
    await node.settle()
    await node.tick()
    assert (passed, node.store.is_behind("c")) == ([], True)


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
