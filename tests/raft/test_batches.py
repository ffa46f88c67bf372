"""Batches of one writer: what is sent when, and how many make one."""

import pytest

from gossamer.raft.batches import BATCH_REQUESTS, GATHERED, GATHERING, PATIENCE, Outbox


def filled(count, *, now=0.0):
    outbox = Outbox(lambda: "late")
    looks = [outbox.add(number, 1, [].append, now) for number in range(count)]
    return outbox, looks


def test_what_comes_first_is_sent_at_once_and_the_rest_together():
    outbox, looks = filled(1)
    assert looks == [True]
    assert outbox.next_batch(0.0) == [0]
    assert [outbox.add(number, 1, [].append, 0.001) for number in (1, 2, 3)] == [False] * 3
    assert outbox.next_batch(0.002) == []
    assert [request for request, _ in outbox.take_sent(0.01)] == [0]
    assert outbox.next_batch(0.01) == [1, 2, 3]
    assert outbox.number == 2


@pytest.mark.parametrize("waiting", [0, 3])
def test_behind_a_large_batch_the_next_waits_for_who_was_answered(waiting):
    outbox, _ = filled(GATHERED)
    outbox.next_batch(0.0)
    for number in range(waiting):
        outbox.add(number, 1, [].append, 0.005)
    outbox.take_sent(0.1)
    assert outbox.next_batch(0.1) == []
    looks = [outbox.add(number, 1, [].append, 0.1) for number in range(GATHERED)]
    assert looks == [not waiting, *[False] * (GATHERED - 2), True]
    assert len(outbox.next_batch(0.1)) == GATHERED + waiting


def test_it_waits_for_a_moment_at_most():
    outbox, _ = filled(GATHERED)
    outbox.next_batch(0.0)
    outbox.take_sent(1.0)
    assert outbox.gathers(1.0) == 0.0
    assert outbox.add(1, 1, [].append, 1.001)
    wait = outbox.gathers(1.001)
    assert 0.0 < wait < GATHERING
    assert outbox.next_batch(1.001) == []
    assert outbox.next_batch(1.001 + wait) == [1]


def test_behind_a_quick_batch_it_waits_for_a_part_of_what_that_took():
    outbox, _ = filled(GATHERED)
    outbox.next_batch(0.0)
    outbox.take_sent(0.003)
    outbox.add(1, 1, [].append, 0.003)
    assert outbox.gathers(0.003) == pytest.approx(0.0015)


def test_a_few_requests_wait_for_none():
    outbox, _ = filled(GATHERED - 1)
    outbox.next_batch(0.0)
    outbox.take_sent(1.0)
    assert outbox.add(1, 1, [].append, 1.0)
    assert outbox.next_batch(1.0) == [1]


def test_a_batch_is_bounded_and_what_waited_too_long_is_not_sent():
    outbox, _ = filled(BATCH_REQUESTS + 1)
    assert len(outbox.next_batch(0.0)) == BATCH_REQUESTS
    told = []
    outbox.add("later", 1, told.append, 1.0)
    outbox.take_sent(PATIENCE + 2.0)
    assert outbox.next_batch(PATIENCE + 2.0 + GATHERING) == []
    assert told == ["late"]


def test_who_was_not_answered_in_time_is_answered_once_and_those_behind_wait_on():
    answers = []
    outbox = Outbox(lambda: "late")
    for at in range(3):
        outbox.add(at, 1, lambda answer, at=at: answers.append((at, answer)), float(at))
    assert outbox.next_batch(2.0) == [0, 1, 2]
    for at in (3, 4):
        outbox.add(at, 1, lambda answer, at=at: answers.append((at, answer)), float(at))
    assert outbox.expire(-1.0, lambda: "unknown") == 0.0
    assert outbox.expire(1.0, lambda: "unknown") == 2.0
    assert outbox.expire(3.0, lambda: "unknown") == 4.0
    assert answers == [(0, "unknown"), (1, "unknown"), (2, "unknown"), (3, "late")]
    # The batch is still on its way, and what it comes to is for nobody.
    assert outbox.next_batch(4.0) == []
    for _, answered in outbox.take_sent(4.0):
        answered("done")
    assert outbox.next_batch(4.0) == [4]
    assert outbox.expire(4.0, lambda: "unknown") is None
    assert answers[4:] == [(4, "unknown")]
