"""What a node's consumers are given: each message once for each attempt, whoever tells of it."""

from random import Random

import pytest

from gossamer.config import QueueDeclaration
from gossamer.queues import LocalConsumer, NotLeaderError, Outcome, Queues, UnknownQueueError
from gossamer.queues.errors import NotDoneError
from gossamer.queues.values import Assigned, Join, Message, Refused, Why


@pytest.fixture
def queues():
    return Queues("n1", [QueueDeclaration(name="jobs")], rng=Random(1), wall=lambda: 0.0, now=lambda: 0.0)


def answer(queues, result=0, group="default"):
    """Have the requests on their way answered; return them."""
    outbox = queues.outboxes[group]
    asked = outbox.next_batch(0.0)
    for _, answered in outbox.take_sent(0.0):
        answered(result)
    return asked


@pytest.fixture
def got():
    return []


@pytest.fixture
def consumer(queues, got):
    made = LocalConsumer(
        "jobs", "workers", client="c", limit=5, start="", give=lambda one: got.append(one.message.offset)
    )
    queues.join(made, lambda result: None)
    (asked,) = answer(queues)
    assert isinstance(asked, Join)
    return made


def given(consumer, offset, attempt=1):
    return Assigned("jobs", "workers", consumer.name, "n1", True, attempt, Message(offset, "", b"", b"", 0))


def test_what_an_entry_gave_is_delivered_once_though_the_log_is_applied_again(queues, consumer, got):
    queues.told("default", 5, [given(consumer, 0)])
    queues.settle(consumer, [0], Outcome.ACK, lambda result: None)
    answer(queues)
    queues.told("default", 5, [given(consumer, 0)])
    assert got == [0]


def test_what_a_look_at_the_leader_brought_is_not_told_again_by_a_replica_that_was_behind(
    queues, consumer, got
):
    queues.deliver([given(consumer, 0)])
    queues.caught_up("default", 9)
    queues.settle(consumer, [0], Outcome.ACK, lambda result: None)
    answer(queues)
    consumer.settled.clear()
    queues.told("default", 7, [given(consumer, 0)])
    queues.told("default", 10, [given(consumer, 1)])
    assert got == [0, 1]


def test_a_message_that_was_settled_without_a_word_of_a_quorum_is_not_given_again_by_the_next_look(
    queues, consumer, got
):
    queues.told("default", 5, [given(consumer, 0)])
    queues.settle(consumer, [0], Outcome.ACK, lambda result: None)
    answer(queues, NotDoneError("no leader", unknown=True))
    queues.deliver([given(consumer, 0)])
    assert got == [0]
    # Another attempt is another matter.
    queues.deliver([given(consumer, 0, attempt=2)])
    assert got == [0, 0]


def test_a_consumer_that_has_left_gets_nothing(queues, consumer, got):
    queues.leave(consumer)
    queues.told("default", 5, [given(consumer, 0)])
    assert got == []


def test_a_request_to_an_unknown_queue_waits_until_it_is_found_or_not(queues):
    results = []
    queues.append("other", b"x", results.append)
    queues.append("nope", b"x", results.append)
    assert results == []
    queues.resolve("other", "hot", None)
    answer(queues, 7, group="hot")
    queues.resolve("nope", None, None)
    assert results[0] == 7
    assert isinstance(results[1], UnknownQueueError)
    # Nobody is asked again for a while.
    queues.append("nope", b"x", results.append)
    assert isinstance(results[2], UnknownQueueError)


def test_a_queue_that_is_declared_and_not_made_yet_is_not_unknown(queues):
    results = []
    queues.append("jobs", b"x", results.append)
    answer(queues, Refused(Why.UNKNOWN_QUEUE))
    queues.resolve("jobs", None, None)
    assert isinstance(results[0], NotDoneError)


def test_a_queue_that_is_gone_is_looked_for_again(queues):
    results = []
    queues.learn("hot", {"other": ()})
    queues.append("other", b"x", results.append)
    answer(queues, Refused(Why.UNKNOWN_QUEUE), group="hot")
    queues.resolve("other", None, None)
    assert isinstance(results[0], UnknownQueueError)
    assert "other" not in queues.groups


def test_what_a_queue_is_asked_that_moves_waits_for_its_new_group_in_order(queues):
    results = []
    queues.learn("hot", {"other": ()})
    queues.append("other", b"1", results.append)
    outbox = queues.outboxes["hot"]
    assert len(outbox.next_batch(0.0)) == 1
    queues.append("other", b"2", results.append)
    queues.append("jobs", b"x", results.append)
    for _, answered in outbox.take_sent(0.0):
        answered(Refused(Why.MOVING))
    queues.follow("hot")
    queues.append("other", b"3", results.append)
    assert (results, outbox.next_batch(0.0)) == ([], [])
    queues.resolve("other", "cold", None)
    assert [one.payload for one in answer(queues, 7, group="cold")] == [b"1", b"2", b"3"]
    assert results == [7, 7, 7]


def test_topics_of_a_queue_that_a_group_has_no_more_are_captured_until_it_is_found_or_not(queues):
    queues.learn("hot", {"other": ("a/#",)})
    queues.learn("hot", {})
    assert queues.captures == {"other": ("a/#",)}
    queues.resolve("other", "cold", None)
    assert queues.captures == {"other": ("a/#",)}
    queues.learn("cold", {})
    queues.resolve("other", None, None)
    assert queues.captures == {}


def test_a_node_that_does_not_lead_refuses_what_is_addressed_to_a_queue_and_takes_what_it_captures(queues):
    results = []
    queues.refused_for = {"default": "n2"}.get
    queues.append("jobs", b"x", results.append)
    (error,) = results
    assert (error.leader, "n2 leads it: publish there" in str(error)) == ("n2", True)
    queues.append("jobs", b"x", results.append, captured=True)
    assert [one.payload for one in answer(queues)] == [b"x"]
    queues.append("other", b"x", results.append)
    queues.resolve("other", "default", None)
    assert isinstance(results[2], NotLeaderError)
    # Also where the group of what is captured has to be found first, or the queue goes to another one.
    queues.append("more", b"y", results.append, captured=True)
    queues.resolve("more", "default", None)
    assert [one.payload for one in answer(queues, Refused(Why.MOVING))] == [b"y"]
    queues.resolve("more", "default", None)
    assert [one.payload for one in answer(queues, 7)] == [b"y"]
    assert results[3:] == [7]


class Recorder:
    """What the flow recorder was told of settlements."""

    def __init__(self):
        self.said = []

    def given(self, *told):
        pass

    def settled(self, queue, group, offset, attempt, client, outcome):
        self.said.append((offset, attempt, outcome))


def test_many_are_settled_by_one_operation_and_each_is_recorded_with_what_came_of_it(queues, consumer, got):
    queues.recorder, results = Recorder(), []
    queues.told("default", 5, [given(consumer, n, attempt=n + 1) for n in range(4)])
    queues.settle(consumer, [0, 1, 2], Outcome.ACK, results.append)
    (asked,) = answer(queues, Refused(Why.NOT_HELD, [1]))
    assert asked.offsets == [0, 1, 2]
    assert [sorted(one.offsets) for one in results] == [[1]]
    assert queues.recorder.said == [(0, 1, "ack"), (1, 2, "late"), (2, 3, "ack")]
    assert list(consumer.held) == [3]


def test_without_a_word_of_a_quorum_all_are_still_with_the_consumer(queues, consumer, got):
    queues.recorder, results = Recorder(), []
    queues.told("default", 5, [given(consumer, 0), given(consumer, 1)])
    queues.settle(consumer, [0, 1], Outcome.NACK, results.append)
    answer(queues, NotDoneError("no leader", unknown=True))
    assert (list(consumer.held), len(results)) == ([0, 1], 1)
    assert queues.recorder.said == [(0, 1, "unknown"), (1, 1, "unknown")]
