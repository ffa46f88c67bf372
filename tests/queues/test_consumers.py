"""Consumer groups: who is given a message, what becomes of it, and what comes again."""

from gossamer.queues.values import (
    MAX_CHECKPOINT,
    DropGroup,
    Leave,
    NodeGone,
    Outcome,
    Purge,
    Refused,
    Settle,
    Why,
)
from tests.queues.replica import join, message, settle


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
        Settle("jobs", "workers", "a", [n], Outcome.NACK, "", delay) for n, delay in ((0, 3000), (1, 0))
    )
    group.ask(later, now)
    group.given()
    group.tick(2)
    assert group.given() == [("a", 1, 2)]
    group.tick(1)
    assert group.given() == [("a", 0, 2)]


def test_a_message_whose_time_is_over_goes_to_another_consumer(group):
    group.define(visibility_timeout=3)
    group.ask(join("a", limit=1), join("b", limit=1), message())
    assert group.given() == [("a", 0, 1)]
    group.tick(3)
    assert group.given() == [("b", 0, 2)]
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_HELD, [0])]
    assert group.ask(settle("b", 0)) == [0]


def test_who_never_settles_does_not_use_up_the_deliveries(group):
    group.define(visibility_timeout=1, retry={"max_deliveries": 3})
    group.ask(join("a"), message())
    group.tick(20)
    assert group.given() == [("a", 0, 1)]
    assert group.show().groups[0].consumers[0].stuck
    # It wakes: what it says comes too late, and it is given the message again.
    assert group.ask(settle("a", 0)) == [Refused(Why.NOT_HELD, [0])]
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
    assert group.ask(settle("a", 2, saved=b"x", based_on=1)) == [Refused(Why.STALE, [2])]
    assert group.ask(settle("a", 2, saved=b"x" * (MAX_CHECKPOINT + 1), based_on=2)) == [
        Refused(Why.TOO_LARGE, [2])
    ]
    # Of a message that is done already.
    assert group.ask(settle("a", 1, saved=b"x", based_on=2)) == [Refused(Why.NOT_HELD, [1])]
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
    assert group.ask(settle("b", 1)) == [Refused(Why.NOT_HELD, [1])]
    # It is the first again, and not stuck any more.
    assert group.given() == [("b", 2, 1)]


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


def test_many_messages_are_settled_in_one_step_and_those_that_were_not_held_are_named(group):
    group.ask(join("a"), *map(message, range(5)))
    group.given()
    assert group.ask(settle("a", [0, 1, 3])) == [0]
    assert group.ask(settle("a", [3, 2, 7, 2])) == [Refused(Why.NOT_HELD, [3, 7, 2])]
    assert (group.show().stats.depth, group.show().stats.settled) == (1, 4)
    assert group.ask(settle("nobody", [4])) == [Refused(Why.NOT_JOINED, [4])]


def test_many_messages_come_again_or_are_dead_letters_in_one_step(group):
    group.define(retry={"initial_backoff": 1, "max_deliveries": 2})
    group.ask(join("a"), *map(message, range(4)))
    group.ask(settle("a", [0, 1], Outcome.NACK), settle("a", [2, 3], Outcome.REJECT))
    group.given()
    group.tick(1)
    assert group.given() == [("a", 0, 2), ("a", 1, 2)]
    assert group.ask(settle("a", [1, 0], Outcome.NACK)) == [0]
    assert (group.show().stats.dead, group.show("jobs.dlq").stats.depth) == (4, 4)


def test_a_log_of_before_has_one_message_in_each_settlement(group):
    group.ask(join("a"), message())
    assert group.ask(Settle("jobs", "workers", "a", 0, Outcome.ACK)) == [0]
    assert group.show().stats.depth == 0
