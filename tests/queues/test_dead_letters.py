"""Dead letters: what nobody could do, where it goes, and how it comes back."""

from gossamer.queues.values import DropGroup, Leave, Outcome, Peek, Refused, Replay, Why, decoder_of, encode
from tests.queues.replica import join, message, settle


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


def test_dead_letters_are_bounded_and_the_oldest_goes(group):
    group.define("jobs.dlq", limits={"max_depth": 2})
    group.ask(join("a"), *map(message, range(3)))
    group.ask(*(settle("a", n, Outcome.REJECT) for n in range(3)))
    shown = group.show("jobs.dlq").stats
    assert (shown.depth, shown.first, shown.dropped) == (2, 1, 1)


def test_what_is_given_back_too_often_where_no_dead_letters_are_kept_is_gone(group):
    group.define(dlq={"enabled": False}, retry={"max_deliveries": 1})
    group.ask(join("a"), message(0), message(1))
    assert group.ask(settle("a", [0, 1], Outcome.NACK)) == [0]
    assert (group.show().stats.depth, group.show().stats.dropped) == (0, 2)
