"""A queue that goes from one machine to another: whole, once, whoever brings it, and however often."""

import pytest

from gossamer.queues.moving.values import Part, Presence
from gossamer.queues.values import (
    Define,
    Has,
    MoveIn,
    MoveOut,
    MoveOver,
    MovePart,
    Outcome,
    Refused,
    Remove,
    Why,
    decoder_of,
    encode,
)
from tests.queues.replica import Group, join, message, settle


def part(source, move, position):
    return decoder_of(Part | None)(source.machine.read(encode(MovePart(move, position))))


def carry(source, target, move="m", queue="jobs"):
    """Bring all parts, each twice."""
    [position] = target.ask(MoveIn(queue, move, 0, b"", False))
    while position >= 0:
        found = part(source, move, position)
        asked = MoveIn(queue, move, position, found.data, found.last)
        [position] = target.ask(asked)
        assert target.ask(asked) == [position]


def presence(group, queue="jobs"):
    return decoder_of(Presence)(group.machine.read(encode(Has(queue))))


@pytest.fixture
def source():
    made = Group()
    made.define()
    made.ask(join("a", limit=2))
    made.ask(*(message(number, "k") for number in range(3)))
    made.given()
    return made


@pytest.fixture
def target():
    return Group()


def test_what_a_queue_has_is_in_the_other_group_and_in_no_other(source, target):
    source.ask(settle("a", 0, Outcome.REJECT))
    source.given()
    assert source.ask(MoveOut("jobs", "m", "hot")) == [0]
    assert presence(source) is Presence.MOVING
    carry(source, target)
    assert (presence(source), presence(target)) == (Presence.MOVING, Presence.HERE)
    source.ask(MoveOver("jobs", "m", True))
    assert (presence(source), presence(source, "jobs.dlq")) == (Presence.NONE, Presence.NONE)
    assert target.show("jobs.dlq").stats.depth == 1
    assert '"group":"hot"' in target.show().settings
    # It still has what it was given, and nothing is given again.
    assert target.given() == []
    assert target.ask(settle("a", 1), settle("a", 2)) == [0, 0]
    assert target.show().stats.depth == 0


def test_a_queue_that_moves_stands_still_and_refuses_what_it_is_asked(source, target):
    source.ask(MoveOut("jobs", "m", "hot"))
    moving = [Refused(Why.MOVING)]
    assert source.ask(message()) == source.ask(settle("a", 0)) == moving
    assert source.ask(Define("jobs", source.show().settings.encode())) == moving
    source.tick(100)
    assert source.show().groups[0].held == 2
    assert source.ask(MoveOut("jobs", "n", "cold")) == moving
    assert source.ask(MoveOut("jobs", "n", "hot")) == [0]


def test_times_are_those_of_the_other_group(source, target):
    target.define("busy")
    target.ask(message(queue="busy"))
    target.tick(1000)
    source.tick(20)
    source.ask(MoveOut("jobs", "m", "hot"))
    carry(source, target)
    assert 20_000 <= target.show().stats.oldest < 21_000
    target.ask(join("b"))
    target.given()
    # Of 30 seconds to settle it ten are left.
    target.tick(9)
    assert target.given() == []
    target.tick(1)
    assert {consumer for consumer, _, _ in target.given()} == {"b"}


def test_a_name_that_the_other_group_has_is_refused_and_the_queue_goes_on(source, target):
    target.define()
    source.ask(MoveOut("jobs", "m", "hot"))
    assert target.ask(MoveIn("jobs", "m", 0, b"", False)) == [Refused(Why.EXISTS)]
    source.ask(MoveOver("jobs", "m", False))
    assert source.ask(message()) == [3]


def test_a_part_that_comes_when_the_queue_was_deleted_there_does_not_bring_it_back(source, target):
    source.ask(MoveOut("jobs", "m", "hot"))
    carry(source, target)
    first = part(source, "m", 0)
    target.machine.restore(target.machine.snapshot())
    target.ask(Remove("jobs"))
    assert target.ask(MoveIn("jobs", "m", 0, first.data, first.last)) == [-1]
    assert presence(target) is Presence.NONE


def test_parts_that_do_not_fit_are_not_taken_for_a_queue(source, target):
    source.ask(MoveOut("jobs", "m", "hot"))
    found = part(source, "m", 0)
    assert target.ask(MoveIn("jobs", "m", 0, found.data[:-1] + b"?", True)) == [0]
    assert presence(target) is Presence.NONE
    carry(source, target)
    assert presence(target) is Presence.HERE


def test_every_replica_reads_the_same_parts_whenever_it_does(source):
    source.ask(MoveOut("jobs", "m", "hot"))
    found, other = part(source, "m", 0), Group()
    other.machine.restore(source.machine.snapshot())
    other.tick(3)
    assert part(other, "m", 0) == found


def test_half_of_a_queue_outlives_a_snapshot_and_is_not_there(source, target):
    source.ask(*(message(number) for number in range(200)), MoveOut("jobs", "m", "hot"))
    found = part(source, "m", 0)
    target.ask(MoveIn("jobs", "m", 0, found.data[:100], False))
    other = Group()
    other.machine.restore(target.machine.snapshot())
    assert presence(other) is Presence.NONE
    assert other.ask(MoveIn("jobs", "m", 0, b"", False)) == [100]
    assert other.ask(MoveIn("jobs", "m", 100, found.data[100:], found.last)) == [-1]
    assert other.show().stats.depth == 203


def test_dead_letters_that_others_share_stay_with_them_and_so_does_the_queue(source):
    source.define("mail", dlq={"queue": "jobs.dlq"})
    for name in ("jobs", "mail"):
        assert source.ask(MoveOut(name, "m", "hot")) == [Refused(Why.SHARED)]
