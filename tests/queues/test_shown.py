"""What is wrong with a queue is said while it is, and what an operator sees of it."""

import pytest

from gossamer.api.model.queues import QueueDetailsInfo
from gossamer.node.views.queues import queue_alarms
from gossamer.queues.replicated.shown import DEAD_LETTERS, QUEUE_FULL, STUCK, UNATTENDED
from gossamer.queues.stats import GroupLag, Trouble
from gossamer.queues.values import Lags, Leave, Outcome, Purge, Watch, decoder_of, encode
from gossamer.queues.watch import standing
from tests.queues.replica import Group, join, message, settle


@pytest.fixture
def group():
    made = Group()
    made.define(limits={"max_depth": 10}, unattended_after=60, visibility_timeout=3)
    return made


def troubles(group):
    return decoder_of(list[Trouble])(group.machine.read(encode(Watch())))


def lags(group, limit=100):
    return decoder_of(list[GroupLag])(group.machine.read(encode(Lags(limit))))


def alarms(group):
    """Names of what is wrong, without what is nearly so."""
    return [one.alarm for one in troubles(group) if one.alarm != QUEUE_FULL or one.subject]


def test_a_queue_that_refuses_is_full_from_nine_tenths_on_and_until_it_is_below_eight(group):
    stands = {}
    seen = []
    group.ask(join("a"))
    for step in range(11):
        group.ask(message(step))
        stands = standing(stands, troubles(group), float(step))
        seen.append(QUEUE_FULL in {alarm for alarm, _, _ in stands})
    assert seen == [False] * 8 + [True] * 3
    assert "100% full, and has refused 1 messages" in next(iter(stands.values()))[1].text
    since = next(iter(stands.values()))[0]
    for offset in range(3):
        group.ask(settle("a", offset))
        stands = standing(stands, troubles(group), 20.0 + offset)
        seen.append(bool(stands))
    assert (since, seen[11:]) == (8.0, [True, True, False])


def test_one_that_drops_its_oldest_is_never_full(group):
    group.define(limits={"max_depth": 2, "overflow": "drop_oldest"})
    group.ask(*map(message, range(5)))
    assert alarms(group) == []


def test_dead_letters_are_told_until_they_are_gone_with_where_they_come_from(group):
    group.ask(join("a"), message(), settle("a", 0, Outcome.REJECT))
    group.ask(settle("a", 0, Outcome.REJECT))
    group.tick(7)
    (found,) = troubles(group)
    assert (found.alarm, found.queue, found.lasts) == (DEAD_LETTERS, "jobs.dlq", 7000)
    assert found.text == "1 in jobs.dlq, the oldest of jobs, consumer group workers: rejected"
    group.ask(Purge("jobs.dlq"))
    assert alarms(group) == []


def test_a_consumer_is_stuck_until_it_settles_something_or_goes(group):
    group.ask(join("a", limit=1), join("b", limit=1), message(1), message(2))
    group.tick(3)
    assert [one.subject for one in troubles(group)] == ["workers/client-a", "workers/client-b"]
    group.ask(settle("a", 0))
    assert [one.subject for one in troubles(group)] == ["workers/client-b"]
    group.ask(Leave("jobs", "workers", "b"))
    assert STUCK not in alarms(group)


def test_a_group_is_unattended_when_messages_have_waited_for_nobody_for_so_long(group):
    group.ask(join("a"), Leave("jobs", "workers", "a"))
    group.tick(100)
    assert alarms(group) == []
    group.ask(message(1), message(2))
    group.tick(59)
    assert alarms(group) == []
    group.tick(1)
    (found,) = troubles(group)
    assert (found.alarm, found.subject, found.lasts) == (UNATTENDED, "workers", 60_000)
    assert found.text == "consumer group workers of jobs, which is 2 messages behind"
    # It is state: who leads next says the same.
    other = Group()
    other.machine.restore(group.machine.snapshot())
    assert troubles(other) == [found]
    group.define(unattended_after="off")
    assert alarms(group) == []


def test_a_group_that_somebody_consumes_is_not_unattended_however_far_it_is_behind(group):
    group.define(visibility_timeout=10_000)
    group.ask(join("a", limit=1), message(1), message(2))
    group.tick(200)
    assert alarms(group) == []


def test_the_lag_of_a_group_is_what_it_was_not_given_or_has_not_settled(group):
    group.ask(join("a", limit=2), join("b", group="audit", limit=1), *map(message, range(5)))
    group.tick(2)
    group.ask(settle("a", 0), message(9))
    assert lags(group) == [
        GroupLag("jobs", "workers", 5, 2000),
        GroupLag("jobs", "audit", 6, 2000),
    ]
    group.ask(settle("b", 0, group="audit"))
    assert len(lags(group, limit=1)) == 1
    group.ask(Purge("jobs"))
    assert [(one.lag, one.oldest) for one in lags(group)] == [(0, 0), (0, 0)]


def test_an_alarm_names_the_worst_queues_and_how_many_others_and_since_when():
    found = [(float(n), Trouble(DEAD_LETTERS, f"q{n}", "", None, f"{n} in q{n}")) for n in range(9, 4, -1)]
    ((name, since, text),) = queue_alarms(found, 1000.0)
    assert (name, since) == (DEAD_LETTERS, 1005.0)
    assert "5 in q5; 6 in q6; 7 in q7; and 2 more" in text


def test_the_checkpoint_of_a_consumer_group_is_shown_with_its_size_and_who_wrote_it_at_which_message():
    group = Group()
    group.define()
    group.ask(join("a"), *map(message, range(2)))
    assert group.show().groups[0].checkpoint is None
    group.ask(settle("a", 0, saved=b"one"), settle("a", 1, saved=b"two!", based_on=1))
    [shown] = QueueDetailsInfo.shown("default", group.show()).model_dump()["groups"]
    assert shown["checkpoint"] == {"number": 2, "size": 4, "offset": 1, "client": "client-a"}
    again = Group()
    again.machine.restore(group.machine.snapshot())
    assert again.show().groups == group.show().groups
