"""The machine of a replication group, against a model that knows only what was asked and answered."""

from random import Random

import pytest

from gossamer.config import QueueConfig
from gossamer.queues.moving.values import Part
from gossamer.queues.replicated.machine import QueueMachine, batch
from gossamer.queues.stats import QueueDetails
from gossamer.queues.values import (
    MAX_CHECKPOINT,
    Append,
    Checkpoint,
    Define,
    DropGroup,
    Held,
    HeldAnswer,
    InSync,
    Join,
    Leave,
    Message,
    MoveIn,
    MoveOut,
    MoveOver,
    MovePart,
    NodeGone,
    Outcome,
    Peek,
    Purge,
    Refused,
    Remove,
    Replay,
    Saved,
    Settle,
    Show,
    Tick,
    Why,
    decode_results,
    decoder_of,
    encode,
)
from gossamer.raft import Durable


class Group:
    """A machine, and what it told: the log of one replica."""

    def __init__(self, replicas=0):
        self.told = []
        self.machine = QueueMachine(lambda index, given: self.told.append((index, given)), replicas=replicas)
        self.index = 0
        self.number = 0

    def ask(self, *operations):
        """Do operations in one batch; return the results."""
        self.number += 1
        return self.apply(batch(b"w", self.number, list(operations)))

    def apply(self, request):
        self.index += 1
        answer = self.machine.apply(self.index, request)
        if isinstance(answer, Durable):
            answer = answer.value
        return None if answer is None else decode_results(answer).results

    def tick(self, seconds):
        for _ in range(int(seconds)):
            self.apply(encode(Tick(1000)))

    def given(self):
        """Take what was given since: consumer, offset and attempt."""
        told, self.told = self.told, []
        return [(one.consumer, one.message.offset, one.attempt) for _, given in told for one in given]

    def show(self, name="jobs"):
        return decoder_of(QueueDetails | None)(self.machine.read(encode(Show(name))))

    def saved(self, consumers="workers"):
        found = decoder_of(Checkpoint)(self.machine.read(encode(Saved("jobs", consumers))))
        return found.number, found.data

    def define(self, name="jobs", **settings):
        return self.ask(Define(name, QueueConfig.model_validate(settings).model_dump_json().encode()))


def message(number=0, key="", *, queue="jobs", expiry=None):
    return Append(queue, key, b"%d" % number, b"", 1_700_000_000_000 + number, expiry)


def join(consumer, *, group="workers", limit=10, start="", queue="jobs", node="n1", single=False):
    return Join(queue, group, consumer, f"client-{consumer}", node, limit, True, start, single)


def settle(consumer, offset, outcome=Outcome.ACK, group="workers", queue="jobs", *, saved=None, based_on=0):
    return Settle(queue, group, consumer, offset, outcome, "", None, saved, based_on)


@pytest.fixture
def group():
    made = Group()
    made.define(limits={"max_depth": 5})
    return made


def test_a_message_goes_to_one_consumer_of_each_group(group):
    group.ask(join("a"), join("b"), join("c", group="audit"))
    group.ask(message(1), message(2))
    assert sorted(group.given()) == [("a", 0, 1), ("b", 1, 1), ("c", 0, 1), ("c", 1, 1)]


def test_a_message_leaves_a_classic_queue_when_every_group_has_settled_it(group):
    group.ask(join("a"), join("c", group="audit"), message())
    group.ask(settle("a", 0))
    assert group.show().stats.depth == 1
    group.ask(settle("c", 0, group="audit"))
    assert group.show().stats.depth == 0


def test_messages_wait_where_there_is_no_consumer_and_a_full_queue_refuses(group):
    assert group.ask(*map(message, range(6))) == [0, 1, 2, 3, 4, Refused(Why.FULL)]
    group.ask(join("a"))
    assert [offset for _, offset, _ in group.given()] == [0, 1, 2, 3, 4]


def test_with_drop_oldest_the_oldest_goes_and_nobody_waits_for_it(group):
    group.define(limits={"max_depth": 2, "overflow": "drop_oldest"})
    group.ask(join("a", limit=1), message(0))
    group.ask(*map(message, range(1, 4)))
    shown = group.show()
    assert (shown.stats.depth, shown.stats.dropped, shown.stats.first) == (2, 2, 2)
    # The first was with its consumer, which has it no more.
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_HELD)]
    assert [offset for _, offset, _ in group.given()] == [0, 2]


def test_a_message_that_is_too_large_is_refused(group):
    group.define(limits={"max_message_size": 1024})
    assert group.ask(Append("jobs", "", b"x" * 1025, b"", 0)) == [Refused(Why.TOO_LARGE)]


def test_a_nacked_message_comes_again_after_its_back_off_also_to_a_lone_consumer(group):
    group.define(retry={"initial_backoff": 2, "multiplier": 2, "max_backoff": 3})
    group.ask(join("a"), message())
    group.ask(settle("a", 0, Outcome.NACK))
    group.tick(1)
    assert group.given() == [("a", 0, 1)]
    group.tick(1)
    assert group.given() == [("a", 0, 2)]
    group.ask(settle("a", 0, Outcome.NACK))
    group.tick(2)
    assert group.given() == []
    group.tick(1)
    assert group.given() == [("a", 0, 3)]


def test_a_nack_may_say_when_its_message_comes_again(group):
    group.define(retry={"initial_backoff": 1})
    group.ask(join("a"), message(0), message(1))
    later, now = (
        Settle("jobs", "workers", "a", n, Outcome.NACK, "", delay) for n, delay in ((0, 3000), (1, 0))
    )
    group.ask(later, now)
    group.given()
    group.tick(2)
    assert group.given() == [("a", 1, 2)]
    group.tick(1)
    assert group.given() == [("a", 0, 2)]


def test_what_was_given_too_often_or_rejected_is_a_dead_letter(group):
    group.define(retry={"max_deliveries": 2, "initial_backoff": 0})
    group.ask(join("a"), message(1, "k"), message(2))
    group.ask(settle("a", 1, Outcome.REJECT), settle("a", 0, Outcome.NACK))
    group.tick(1)
    group.ask(settle("a", 0, Outcome.NACK))
    found = decoder_of(list)(group.machine.read(encode(Peek("jobs.dlq", 0, 10))))
    assert [(one[1], one[2], one[5]) for one in found] == [
        ("", b"2", "jobs, consumer group workers: rejected"),
        ("k", b"1", "jobs, consumer group workers: given 2 times; nack"),
    ]
    assert group.show().stats.depth == 0
    assert group.show().stats.dead == 2


def dead_letters(group, *, count=3, groups=("workers",)):
    """Reject so many messages, by the first of the consumer groups."""
    group.ask(*(join(f"{name}-1", group=name) for name in groups))
    for number in range(count):
        [offset] = group.ask(message(number, "k"))
        group.ask(settle(f"{groups[0]}-1", offset, Outcome.REJECT, group=groups[0]))
    group.given()


def test_dead_letters_go_back_to_their_queue_and_their_attempts_count_anew(group):
    dead_letters(group)
    assert group.ask(Replay("jobs")) == [3]
    assert group.given() == [("workers-1", 3, 1), ("workers-1", 4, 1), ("workers-1", 5, 1)]
    assert (group.show().stats.depth, group.show("jobs.dlq").stats.depth) == (3, 0)
    assert group.ask(Replay("jobs")) == [0]


def test_one_dead_letter_or_the_oldest_go_back_and_others_stay(group):
    dead_letters(group, count=4)
    assert group.ask(Replay("jobs", offset=2), Replay("jobs", limit=2)) == [1, 2]
    assert [one[0] for one in decoder_of(list)(group.machine.read(encode(Peek("jobs.dlq", 0, 9))))] == [3]
    assert group.ask(Replay("jobs", offset=2)) == [0]


def test_dead_letters_for_which_there_is_no_room_stay(group):
    dead_letters(group)
    group.ask(Leave("jobs", "workers", "workers-1"), *map(message, range(4)))
    assert group.ask(Replay("jobs")) == [1]
    assert group.ask(Replay("jobs")) == [Refused(Why.FULL)]
    assert (group.show().stats.depth, group.show("jobs.dlq").stats.depth) == (5, 2)


def test_a_message_goes_back_to_the_consumer_group_that_could_not_do_it_alone(group):
    dead_letters(group, count=1, groups=("workers", "audit"))
    group.ask(settle("audit-1", 0, group="audit"), Replay("jobs"))
    assert group.given() == [("workers-1", 1, 1)]
    assert [one.waiting for one in group.show().groups] == [0, 0]
    group.ask(settle("workers-1", 1))
    assert group.show().stats.depth == 0


def test_a_message_that_went_back_to_a_group_that_is_dropped_waits_for_it_no_more(group):
    dead_letters(group, count=1, groups=("workers", "audit"))
    group.ask(settle("audit-1", 0, group="audit"), Leave("jobs", "workers", "workers-1"), Replay("jobs"))
    group.ask(DropGroup("jobs", "workers"))
    assert group.show().stats.depth == 0


def test_a_message_that_went_back_to_the_last_group_waits_for_the_next_one(group):
    dead_letters(group, count=1)
    group.ask(Leave("jobs", "workers", "workers-1"), Replay("jobs"), DropGroup("jobs", "workers"))
    group.ask(join("n", group="next"))
    assert group.given() == [("n", 1, 1)]


def test_dead_letters_of_other_queues_and_those_that_a_consumer_has_stay(group):
    group.define(dlq={"queue": "graves"})
    group.define("mail", dlq={"queue": "graves"})
    dead_letters(group)
    group.ask(join("m", queue="mail"), message(queue="mail"))
    group.ask(settle("m", 0, Outcome.REJECT, queue="mail"), join("u", queue="graves", limit=1))
    assert group.ask(Replay("jobs"), Replay("mail")) == [2, 1]
    assert group.show("graves").stats.depth == 1


def test_an_earlier_value_of_a_key_is_not_given_back_over_a_later_one(group):
    group.define("state", type="last_value")
    group.ask(join("x", queue="state"), message(0, "k", queue="state"))
    group.ask(settle("x", 0, Outcome.REJECT, queue="state"), message(1, "k", queue="state"))
    assert group.ask(Replay("state")) == [1]
    assert [one[2] for one in decoder_of(list)(group.machine.read(encode(Peek("state", 0, 9))))] == [b"1"]


def test_without_dead_letters_they_are_dropped_and_counted(group):
    group.define(dlq={"enabled": False})
    group.ask(join("a"), message(), settle("a", 0))
    group.ask(settle("a", 0, Outcome.REJECT))
    assert group.show("jobs.dlq") is None
    assert group.show().stats.dropped == 1


def test_a_message_whose_time_is_over_goes_to_another_consumer(group):
    group.define(visibility_timeout=3)
    group.ask(join("a", limit=1), join("b", limit=1), message())
    assert group.given() == [("a", 0, 1)]
    group.tick(3)
    assert group.given() == [("b", 0, 2)]
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_HELD)]
    assert group.ask(settle("b", 0)) == [0]


def test_who_never_settles_does_not_use_up_the_deliveries(group):
    group.define(visibility_timeout=1, retry={"max_deliveries": 3})
    group.ask(join("a"), message())
    group.tick(20)
    assert group.given() == [("a", 0, 1)]
    assert group.show().groups[0].consumers[0].stuck
    # It wakes: what it says comes too late, and it is given the message again.
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_HELD)]
    assert group.given() == [("a", 0, 2)]


def test_what_a_consumer_has_goes_to_another_at_once_when_it_leaves(group):
    group.ask(join("a"), join("b", node="n2"), message(1), message(2))
    group.given()
    group.ask(Leave("jobs", "workers", "a"))
    assert group.given() == [("b", 0, 2)]
    group.ask(NodeGone("n2", []), join("c"))
    assert sorted(group.given()) == [("c", 0, 3), ("c", 1, 2)]


def test_a_node_that_is_gone_keeps_the_consumers_that_it_says_it_has(group):
    group.ask(join("a"), join("b"), NodeGone("n1", ["b"]))
    assert [one.client for one in group.show().groups[0].consumers] == ["client-b"]


def test_a_consumer_has_no_more_than_its_limit_and_the_one_with_least_is_next(group):
    group.define(max_inflight=2)
    group.ask(join("a", limit=1), join("b", limit=100), *map(message, range(5)))
    assert group.given() == [("a", 0, 1), ("b", 1, 1), ("b", 2, 1)]
    group.ask(settle("b", 1))
    assert group.given() == [("b", 3, 1)]


def test_with_ordering_by_key_no_two_messages_of_a_key_are_out_at_once(group):
    group.define(ordering="key", retry={"initial_backoff": 2})
    group.ask(join("a"), message(0, "k"), message(1, "k"), message(2, "l"), message(3))
    assert [offset for _, offset, _ in group.given()] == [0, 2, 3]
    group.ask(settle("a", 0, Outcome.NACK))
    assert group.given() == []
    group.tick(2)
    assert group.given() == [("a", 0, 2)]
    group.ask(settle("a", 0))
    assert group.given() == [("a", 1, 1)]


def test_a_key_opens_when_what_closed_it_is_dropped(group):
    group.define(ordering="key", limits={"max_depth": 3, "overflow": "drop_oldest"})
    group.ask(join("a"), message(0, "k"), message(1, "k"), message(2, "k"))
    # The first goes, then the one that it gave way to; the third follows.
    group.ask(message(3), message(4))
    assert group.given()[0][1] == 0
    group.ask(join("b"))
    assert group.ask(settle("a", 2)) == [0]


def test_an_ack_writes_the_checkpoint_that_comes_from_the_one_before(group):
    group.ask(join("a"), join("c", group="audit"), *map(message, range(3)))
    assert group.saved() == (0, b"")
    assert group.ask(settle("a", 0, saved=b"one"), settle("a", 1, saved=b"two", based_on=1)) == [0, 0]
    assert group.saved() == (2, b"two")
    # Of a state that was before: nothing is done, and the message is where it was.
    assert group.ask(settle("a", 2, saved=b"x", based_on=1)) == [Refused(Why.STALE)]
    assert group.ask(settle("a", 2, saved=b"x" * (MAX_CHECKPOINT + 1), based_on=2)) == [
        Refused(Why.TOO_LARGE)
    ]
    # Of a message that is done already.
    assert group.ask(settle("a", 1, saved=b"x", based_on=2)) == [Refused(Why.NOT_HELD)]
    assert group.saved() == (2, b"two")
    assert group.ask(settle("a", 2, saved=b"x" * MAX_CHECKPOINT, based_on=2)) == [0]
    assert group.saved()[0] == 3
    assert group.saved("audit") == (0, b"")


def test_a_checkpoint_goes_with_its_consumer_group(group):
    group.ask(join("a"), message())
    group.ask(settle("a", 0, saved=b"one"), Purge("jobs"))
    assert group.saved() == (1, b"one")
    group.ask(Leave("jobs", "workers", "a"), DropGroup("jobs", "workers"))
    assert group.saved() == (0, b"")


def test_of_consumers_that_want_to_be_the_only_one_the_first_is_given_all_until_it_is_gone_or_stuck(group):
    group.define(visibility_timeout=3)
    group.ask(join("a", limit=1, single=True), join("b", limit=1, single=True), *map(message, range(4)))
    assert group.given() == [("a", 0, 1)]
    group.ask(settle("a", 0))
    assert group.given() == [("a", 1, 1)]
    group.ask(Leave("jobs", "workers", "a"))
    assert group.given() == [("b", 1, 2)]
    group.ask(join("c", limit=1, single=True))
    group.tick(3)
    assert group.given() == [("c", 1, 3)]
    assert group.ask(settle("b", 1)) == [Refused(Why.NOT_HELD)]
    # It is the first again, and not stuck any more.
    assert group.given() == [("b", 2, 1)]


def test_a_stream_keeps_what_is_settled_and_groups_begin_where_they_say(group):
    group.define("log", type="stream")
    group.ask(*(message(n, queue="log") for n in range(4)))
    start = {"f": "first", "l": "last", "n": "next", "2": "2", "t": "timestamp:1700000000001"}
    for name, where in start.items():
        group.ask(join(name, group=name, start=where, queue="log"))
    given = group.given()
    assert {name: [o for c, o, _ in given if c == name] for name in start} == {
        "f": [0, 1, 2, 3],
        "l": [3],
        "n": [],
        "2": [2, 3],
        "t": [1, 2, 3],
    }
    group.ask(*(settle("f", n, group="f", queue="log") for n in range(4)))
    assert group.show("log").stats.depth == 4
    assert group.ask(join("x", group="x", start="yesterday", queue="log")) == [Refused(Why.BAD_START)]


def test_a_stream_forgets_by_age(group):
    group.define("log", type="stream", max_age=3)
    group.ask(message(queue="log"))
    group.tick(2)
    group.ask(message(queue="log"))
    group.tick(1)
    assert group.show("log").stats.first == 0 or group.show("log").stats.depth == 1
    group.tick(2)
    assert group.show("log").stats.depth == 0


def test_a_group_that_settles_at_once_keeps_nothing_of_what_it_had(group):
    group.define(visibility_timeout=30)
    group.ask(join("a", limit=2))
    sizes = []
    for offset in range(4000):
        assert group.ask(message()) == [offset]
        assert group.ask(settle("a", offset)) == [0]
        sizes.append(len(group.machine.snapshot()) if offset % 500 == 499 else 0)
    assert max(sizes) < 25_000
    group.ask(message(), message())
    group.told.clear()
    group.tick(31)
    # What is with a consumer is watched as before.
    assert group.show().groups[0].consumers[0].stuck


def test_a_last_value_queue_has_one_message_a_key(group):
    group.define("state", type="last_value")
    group.ask(*(message(n, key, queue="state") for n, key in enumerate("aba")))
    assert group.show("state").stats.depth == 2
    group.ask(join("x", queue="state"))
    assert [offset for _, offset, _ in group.given()] == [1, 2]
    group.ask(settle("x", 1, queue="state"), settle("x", 2, queue="state"))
    assert group.show("state").stats.depth == 2
    group.ask(join("y", group="late", start="first", queue="state"))
    assert [offset for _, offset, _ in group.given()] == [1, 2]


def test_what_a_last_value_queue_refuses_leaves_what_it_has(group):
    group.define(type="last_value", limits={"max_depth": 2, "max_message_size": 1024, "max_bytes": 1024})
    small, large = (Append("jobs", "a", bytes(size), b"", 0) for size in (100, 1000))
    assert group.ask(small, message(1, "b"), large) == [0, 1, Refused(Why.FULL)]
    assert [one.key for one in decoder_of(list[Message])(group.machine.read(encode(Peek("jobs", 0, 9))))] == [
        "a",
        "b",
    ]
    assert group.ask(small) == [2]


def test_a_queue_that_becomes_one_of_last_values_keeps_the_latest_of_each_key(group):
    group.ask(*(message(n, key) for n, key in enumerate("abab")))
    group.define(type="last_value")
    assert [one[0] for one in decoder_of(list)(group.machine.read(encode(Peek("jobs", 0, 9))))] == [2, 3]


def test_dead_letters_are_bounded_and_the_oldest_goes(group):
    group.define("jobs.dlq", limits={"max_depth": 2})
    group.ask(join("a"), *map(message, range(3)))
    group.ask(*(settle("a", n, Outcome.REJECT) for n in range(3)))
    shown = group.show("jobs.dlq").stats
    assert (shown.depth, shown.first, shown.dropped) == (2, 1, 1)


def test_an_ephemeral_queue_goes_when_nobody_has_wanted_it_for_long(group):
    group.define("temp", type="ephemeral", expires_after=3)
    group.ask(join("a", queue="temp"))
    group.tick(10)
    assert group.show("temp") is not None
    group.ask(Leave("temp", "workers", "a"))
    group.tick(3)
    assert group.show("temp") is None


def test_messages_expire_by_their_own_expiry_or_that_of_the_queue(group):
    group.define(limits={"message_ttl": 5})
    group.ask(message(1, expiry=2000), message(2))
    group.tick(2)
    assert group.show().stats.depth == 1
    group.tick(3)
    assert (group.show().stats.depth, group.show().stats.dropped) == (0, 2)


def test_what_is_not_there_is_said(group):
    assert group.ask(message(queue="nope"), join("a", queue="nope")) == [Refused(Why.UNKNOWN_QUEUE)] * 2
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_JOINED)]
    group.ask(join("a"))
    assert group.ask(settle("a", 7)) == [Refused(Why.NOT_HELD)]


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


def moved(source, ahead):
    """Move a queue to a group whose clock is so far ahead."""
    target = Group()
    target.define("clock")
    target.ask(message(queue="clock"))
    target.tick(ahead)
    source.ask(MoveOut("jobs", "m", "hot"))
    [position] = target.ask(MoveIn("jobs", "m", 0, b"", False))
    while position >= 0:
        data = source.machine.read(encode(MovePart("m", position)))
        found = decoder_of(Part)(data)
        [position] = target.ask(MoveIn("jobs", "m", position, found.data, found.last))
    assert source.ask(MoveOver("jobs", "m", True)) == [0]
    return target


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


@pytest.mark.parametrize("seed", range(60))
def test_every_message_is_settled_once_or_accounted_for_whatever_comes(seed):
    """Random operations; a second replica is restored from a snapshot in the middle, and stays the same."""
    rng = Random(seed)
    group, other = Group(), None
    kind = rng.choice(["classic", "classic", "stream"])
    ordered = rng.random() < 0.5
    group.define(
        type=kind,
        ordering="key" if ordered else "none",
        visibility_timeout=rng.choice([2, 30]),
        limits={"max_depth": rng.choice([8, 1000]), "overflow": rng.choice(["reject", "drop_oldest"])},
        retry={"max_deliveries": 4, "initial_backoff": rng.choice([0, 2])},
    )
    taken, done, dead, keys, back = set(), set(), 0, {}, 0
    kept = []
    """What was done with a checkpoint, in order: the checkpoint is the last, and how many there were."""
    consumers = ["a", "b", "c"]
    in_sync = InSync(3, 3)

    def ask(*operations):
        if other is not None:
            other.ask(*operations)
        return group.ask(*operations)

    def held():
        claims = decoder_of(HeldAnswer)(group.machine.read(encode(Held("n1")))).claims
        return {claim.offset: claim.consumer for claim in claims}

    for step in range(400):
        choice = rng.random()
        if choice < 0.4:
            key = rng.choice(["", "k", "l"])
            (offset,) = ask(message(step, key))
            assert (offset == Refused(Why.FEW_REPLICAS)) is (in_sync.replicas < 3)
            if isinstance(offset, int):
                taken.add(offset)
                keys[offset] = key
        elif choice < 0.5:
            single = rng.random() < 0.2
            ask(join(rng.choice(consumers), limit=rng.choice([1, 3]), start="first", single=single))
        elif choice < 0.55:
            ask(Leave("jobs", "workers", rng.choice(consumers)))
        elif choice < 0.57:
            first = group.show().stats.next
            (count,) = ask(Replay("jobs", limit=rng.choice([None, 1])))
            if isinstance(count, int):
                back += count
                # Each is a message more, whose key may be any.
                new = decoder_of(list)(group.machine.read(encode(Peek("jobs", first, count or 1))))
                assert len(new) == count
                taken |= {one[0] for one in new}
                keys |= {one[0]: one[1] for one in new}
        elif choice < 0.65:
            in_sync = InSync(rng.choice([2, 3]), 3)
            for one in (group, other):
                if one is not None:
                    one.tick(1)
                    one.apply(encode(in_sync))
        elif mine := held():
            offset = rng.choice(sorted(mine))
            outcome = rng.choice([Outcome.ACK, Outcome.ACK, Outcome.NACK, Outcome.REJECT])
            if outcome is Outcome.ACK and rng.random() < 0.5:
                stale = rng.choice([n for n in range(len(kept) + 2) if n != len(kept)])
                late = settle(mine[offset], offset, saved=b"late", based_on=stale)
                assert ask(late) == [Refused(Why.STALE)]
                assert held()[offset] == mine[offset]
                kept.append(b"%d" % offset)
                saved = settle(mine[offset], offset, saved=kept[-1], based_on=len(kept) - 1)
                assert ask(saved) == [0]
                # It comes a second time, from somebody who does not know that it was taken.
                assert ask(saved)[0] in (Refused(Why.STALE), Refused(Why.NOT_JOINED))
            else:
                assert ask(settle(mine[offset], offset, outcome)) == [0]
            if outcome is Outcome.ACK:
                assert offset not in done
                done.add(offset)
        assert group.saved() == (len(kept), kept[-1] if kept else b"")
        if ordered:
            out = [keys[offset] for offset in held() if keys[offset]]
            assert len(out) == len(set(out))
        if step == 300:
            assert other.machine.snapshot() == group.machine.snapshot()
            group, in_sync = moved(group, rng.randrange(100)), InSync(3, 3)
        if step in (200, 300):
            other = Group()
            other.machine.restore(group.machine.snapshot())
            other.number, other.index = group.number, group.index
    stats = group.show().stats
    dead = stats.dead
    assert done <= taken
    letters = group.show("jobs.dlq")
    assert dead == back + (0 if letters is None else letters.stats.depth)
    if kind == "classic":
        assert stats.depth + len(done) + dead + stats.dropped == len(taken)
    assert other.machine.snapshot() == group.machine.snapshot()
    # Whoever is left does all the rest.
    ask(Leave("jobs", "workers", "b"), Leave("jobs", "workers", "c"))
    ask(settle("a", -1), join("a", limit=100, start="first"))
    for _ in range(200):
        for offset, consumer in held().items():
            assert group.ask(settle(consumer, offset)) == [0]
            done.add(offset)
        group.tick(1)
    stats = group.show().stats
    assert len(done) + stats.dead + stats.dropped >= len(taken)
    if kind == "classic":
        assert stats.depth == 0
