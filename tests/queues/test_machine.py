"""The machine of a replication group: what it is asked, once each, and who is told."""

from gossamer.queues.values import (
    DropGroup,
    Leave,
    MoveIn,
    MoveOver,
    Purge,
    Refused,
    Release,
    Remove,
    Why,
    batch,
    decode_results,
    encode,
)
from tests.queues.replica import Group, join, message, settle


def test_a_message_goes_to_one_consumer_of_each_group(group):
    group.ask(join("a"), join("b"), join("c", group="audit"))
    group.ask(message(1), message(2))
    assert sorted(group.given()) == [("a", 0, 1), ("b", 1, 1), ("c", 0, 1), ("c", 1, 1)]


def test_what_is_not_there_is_said(group):
    assert group.ask(message(queue="nope"), join("a", queue="nope")) == [Refused(Why.UNKNOWN_QUEUE)] * 2
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_JOINED, [0])]
    group.ask(join("a"))
    assert group.ask(settle("a", 7)) == [Refused(Why.NOT_HELD, [7])]


def test_a_queue_has_so_many_consumer_groups_and_others_go_on(group):
    group.define(limits={"max_groups": 2})
    group.ask(join("a"), join("b", group="audit"))
    assert group.ask(join("c", group="third")) == [Refused(Why.TOO_MANY_GROUPS)]
    assert group.ask(join("c", group="audit")) == [0]


def test_purge_remove_and_the_end_of_a_consumer_group(group):
    group.ask(join("a"), join("b", group="audit"), message(1), message(2))
    group.ask(settle("a", 0), settle("a", 1))
    assert group.show().stats.depth == 2
    assert group.ask(DropGroup("jobs", "audit")) == [Refused(Why.IN_USE)]
    group.ask(Leave("jobs", "audit", "b"), DropGroup("jobs", "audit"))
    assert group.show().stats.depth == 0
    group.ask(message(3))
    assert group.ask(Purge("jobs")) == [1]
    assert group.show().stats.depth == 0
    group.ask(Remove("jobs"))
    assert group.show() is None


def test_a_batch_that_comes_twice_is_done_once_and_an_earlier_one_not_at_all(group):
    twice = batch(b"x", 7, [message()])
    assert group.apply(twice) == group.apply(twice) == [0]
    assert group.show().stats.depth == 1
    late = decode_results(group.machine.apply(99, batch(b"x", 6, [message()])))
    assert late.late
    assert group.show().stats.depth == 1


def test_what_a_batch_appends_is_answered_when_so_many_replicas_have_it_and_other_operations_by_a_quorum():
    group = Group(replicas=3)
    group.define(limits={"max_depth": 1})
    asked = batch(b"x", 1, [join("a"), message()])
    answers = [group.machine.apply(index, asked) for index in (10, 11)]
    assert [answer.voters for answer in answers] == [3, 3]
    for number, operation in ((2, message()), (3, settle("a", 0))):
        assert isinstance(group.machine.apply(10 + number, batch(b"x", number, [operation])), bytes)


def test_messages_are_refused_while_too_few_replicas_are_in_sync_and_consumers_go_on():
    group = Group(replicas=3)
    group.define()
    group.ask(join("a"), message(1))
    assert group.machine.upkeep(0.0, None)[1:] == group.machine.upkeep(0.0, 3)[1:] == []
    (said,) = group.machine.upkeep(0.0, 2)[1:]
    group.apply(said)
    assert group.machine.upkeep(0.0, 2)[1:] == []
    assert group.ask(message(2), settle("a", 0)) == [Refused(Why.FEW_REPLICAS), 0]
    # So it is after a restart, and at a replica whose node is configured otherwise.
    other = Group()
    other.machine.restore(group.machine.snapshot())
    other.number = group.number
    assert other.machine.snapshot() == group.machine.snapshot()
    assert other.ask(message(2)) == [Refused(Why.FEW_REPLICAS)]
    for one, in_sync in ((other, 2), (group, 3)):
        (said,) = one.machine.upkeep(0.0, in_sync)
        one.apply(said)
        assert one.ask(message(2)) == [1]


def test_a_group_that_is_not_to_stay_ends_once_no_queue_was_in_it_for_a_while():
    group = Group(stays=False)
    led = iter(range(10_000))

    def passes(seconds):
        """Let the leader look so often; return whether the group ends."""
        for _ in range(seconds):
            for request in group.machine.upkeep(float(next(led)), None):
                group.apply(request)
        return group.machine.released

    assert not passes(30)
    group.define()
    assert not passes(200)
    # What is on its way there counts as there.
    group.ask(Remove("jobs"), MoveIn("other", "m", 0, b"", False))
    assert not passes(200)
    group.ask(MoveOver("other", "m", False))
    assert not passes(50)
    assert passes(20)
    assert group.define() == [Refused(Why.RELEASED)]
    again = Group()
    again.machine.restore(group.machine.snapshot())
    assert again.machine.released


def test_a_group_does_not_end_when_a_queue_came_in_the_meantime():
    group = Group(stays=False)
    group.define()
    group.apply(encode(Release()))
    assert not group.machine.released
    assert group.ask(message()) == [0]
