"""Suspicion, awareness, retransmits, timers and the round robin, by table."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gossamer.gossip.member import MemberMetadata
from gossamer.gossip.swim.core import Timers
from gossamer.gossip.swim.lifeguard import Awareness, Suspicion, suspicion_bounds
from gossamer.gossip.swim.outbox import BroadcastQueue
from gossamer.gossip.swim.prober import RoundRobin
from gossamer.gossip.swim.table import ALIVE, DOWN, MemberEntry, MemberTable, retransmit_limit
from gossamer.gossip.wire import Alive


@pytest.mark.parametrize(
    ("members", "expected"),
    [(1, (2.0, 12.0)), (10, (2.0, 12.0)), (100, (4.0, 24.0)), (1000, (6.0, 36.0)), (3, (2.0, 12.0))],
)
def test_suspicion_bounds_grow_with_the_logarithm(members: int, expected: tuple[float, float]) -> None:
    bounds = suspicion_bounds(members, interval=0.5, mult=4, max_mult=6, floor=1.5)
    assert bounds == pytest.approx(expected)
    # Never before the floor, however short the interval.
    assert suspicion_bounds(3, interval=0.1, mult=1, max_mult=2, floor=1.5) == (1.5, 3.0)


@pytest.mark.parametrize(
    ("needed", "confirmers", "expected"),
    # max - (max - min) * ln(n + 1) / ln(k + 1), min 2, max 30
    [(3, 0, 30.0), (3, 1, 16.0), (3, 2, 7.81), (3, 3, 2.0), (3, 9, 2.0), (1, 1, 2.0)],
)
def test_confirmations_shrink_a_suspicion(needed: int, confirmers: int, expected: float) -> None:
    suspicion = Suspicion("accuser", started=100, minimum=2, maximum=30, needed=needed)
    for number in range(confirmers):
        suspicion.confirm(f"confirmer{number}")
    assert suspicion.timeout() == pytest.approx(expected, abs=0.01)
    assert suspicion.deadline() == pytest.approx(100 + expected, abs=0.01)


@pytest.mark.parametrize(
    ("options", "said", "expected"),
    # Who confirms; with "!" by hard evidence. Whether that counts, and the timeout from then on.
    [
        pytest.param(
            {"needed": 3},
            "accuser b b c d e",
            [(False, 30), (True, 16), (False, 16), (True, 7.81), (True, 2), (False, 2)],
            id="a confirmer counts once and the accuser never",
        ),
        pytest.param(
            {"needed": 3},
            "accuser! accuser!",
            [(True, 2), (False, 2)],
            id="hard evidence counts as every confirmation",
        ),
        pytest.param({"needed": 3, "refused": 0.5}, "accuser!", [(True, 0.5)], id="a refusal has a floor"),
        pytest.param({"needed": 0}, "", [], id="without a third opinion, twice the minimum"),
        pytest.param({"needed": 0, "hard": True}, "", [], id="and hard evidence the minimum"),
        pytest.param({"needed": 1, "few": True}, "b", [(True, 2)], id="the minimum where all agree"),
    ],
)
def test_what_counts_against_the_accused(
    options: dict[str, Any], said: str, expected: list[tuple[bool, float]]
) -> None:
    suspicion = Suspicion("accuser", started=10, minimum=2, maximum=30, **options)
    begins = 30 if options["needed"] == 3 else 2 if "hard" in options else 4
    assert suspicion.timeout() == begins
    got = [
        (suspicion.confirm(who.rstrip("!"), hard=who.endswith("!")), suspicion.timeout())
        for who in said.split()
    ]
    assert got == [(counts, pytest.approx(timeout, abs=0.01)) for counts, timeout in expected]
    # Time that this process lost is given back.
    before = suspicion.deadline()
    suspicion.extend(3)
    assert suspicion.deadline() == before + 3


@pytest.mark.parametrize(
    ("deltas", "score"), [((), 0), ((1,), 1), ((-1,), 0), ((3, 3, 3), 7), ((9, -1), 6), ((2, -1, -1, -1), 0)]
)
def test_awareness_saturates(deltas: tuple[int, ...], score: int) -> None:
    awareness = Awareness(maximum=8)
    for delta in deltas:
        awareness.apply(delta)
    assert awareness.score == score
    assert awareness.stretch(0.5) == 0.5 * (score + 1)


@pytest.mark.parametrize(("members", "limit"), [(1, 4), (9, 4), (10, 8), (99, 8), (100, 12), (1000, 16)])
def test_retransmits_grow_with_the_logarithm(members: int, limit: int) -> None:
    assert retransmit_limit(members, mult=4) == limit


def test_the_queue_sends_the_least_sent_first_and_the_newest_of_those() -> None:
    queue = BroadcastQueue()
    queue.put("a", b"a")
    queue.put("b", b"b")
    assert queue.take(1, limit=3) == [b"b"]
    assert queue.take(1, limit=3) == [b"a"]
    queue.put("c", b"c")
    assert queue.take(2, limit=3) == [b"c", b"a"]


def test_the_queue_replaces_what_it_holds_about_a_member() -> None:
    queue = BroadcastQueue()
    queue.put("a", b"old")
    queue.take(10, limit=4)
    queue.put("a", b"new")
    assert len(queue) == 1
    assert [queue.take(10, limit=2) for _ in range(3)] == [[b"new"], [b"new"], []]


def test_the_queue_fits_what_it_can() -> None:
    queue = BroadcastQueue()
    queue.put("small", b"12")
    queue.put("large", b"1234567890")
    assert queue.take(5, limit=4) == [b"12"]
    assert queue.take(20, limit=4) == [b"1234567890", b"12"]
    assert queue.take(0, limit=4) == []


def test_the_queue_is_bounded_and_drops_the_most_sent() -> None:
    queue = BroadcastQueue(limit=2)
    queue.put("a", b"a")
    queue.take(1, limit=9)
    queue.put("b", b"b")
    queue.put("c", b"c")
    assert queue.take(9, limit=9) == [b"c", b"b"]
    queue.discard("b")
    queue.discard("b")
    assert len(queue) == 1


def test_timers_fire_in_order_and_tell_their_lag() -> None:
    timers, fired = Timers(), []
    timers.at(2, lambda now: fired.append(("b", now)))
    timers.at(1, lambda now: fired.append(("a", now)))
    timers.at(2, lambda now: fired.append(("c", now)))
    assert timers.deadline == 1
    assert timers.lag(1.5) == 0.5
    timers.run(2)
    assert fired == [("a", 2), ("b", 2), ("c", 2)]
    assert timers.deadline is None


def said(number: int) -> Alive:
    name = f"node{number}"
    return Alive(name, f"{number:016x}", "10.0.0.1", number, 1, MemberMetadata(name))


def test_the_round_robin_visits_everybody_once_a_round() -> None:
    table = MemberTable(said(0), retransmit_mult=4)
    order = RoundRobin(table, random.Random(3))
    assert order.next() is None
    for number in range(1, 9):
        table.put(MemberEntry(said(number), ALIVE, 0), 0)
    rounds = [[entry.name for _ in range(8) if (entry := order.next())] for _ in range(3)]
    assert all(sorted(names) == sorted(table.live) for names in rounds)
    assert rounds[0] != rounds[1]


def test_the_round_robin_skips_the_dead_and_takes_in_newcomers() -> None:
    table = MemberTable(said(0), retransmit_mult=4)
    order = RoundRobin(table, random.Random(3))
    for number in range(1, 5):
        table.put(MemberEntry(said(number), ALIVE, 0), 0)
    order.next()
    dead = table.get("node2")
    assert dead is not None
    dead.state = DOWN
    table.put(dead, 1)
    table.put(MemberEntry(said(9), ALIVE, 1), 1)
    order.add("node9")
    rest = [entry.name for _ in range(4) if (entry := order.next())]
    assert "node2" not in rest
    assert "node9" in rest


def test_samples_are_distinct_and_never_the_excluded() -> None:
    table = MemberTable(said(0), retransmit_mult=4)
    rng = random.Random(1)
    assert table.sample(rng, 3) == []
    for number in range(1, 30):
        table.put(MemberEntry(said(number), ALIVE, 0), 0)
    for _ in range(200):
        names = [entry.name for entry in table.sample(rng, 4, exclude="node7")]
        assert len(set(names)) == 4
        assert "node7" not in names


def test_packets_to_one_receiver_do_not_repeat_each_other() -> None:
    """A repeat would use up transmits that reach nobody new."""
    queue = BroadcastQueue()
    for name in ("a", "b", "c"):
        queue.put(name, name.encode() * 10)
    told: set[str] = set()
    packets = [queue.take(20, limit=8, told=told) for _ in range(3)]
    assert sorted(b"".join(message[:1] for packet in packets for message in packet)) == list(b"abc")
    assert [len(packet) for packet in packets] == [2, 1, 0]


def test_where_nobody_is_left_to_confirm_the_wait_is_that_of_a_small_cluster() -> None:
    """And where somebody is back, it is the long one again."""
    suspicion = Suspicion("a", started=0, minimum=2, maximum=30, needed=2)
    assert suspicion.timeout() == 30
    suspicion.witnesses = 1
    assert suspicion.timeout() == 4
    suspicion.confirm("b")
    suspicion.confirm("c")
    assert suspicion.timeout() == 2
    suspicion.witnesses = 3
    assert suspicion.timeout() == 2


def test_a_packet_that_does_not_count_leaves_news_as_new_as_it_was() -> None:
    queue = BroadcastQueue()
    queue.put("a", b"news")
    for _ in range(5):
        assert queue.take(100, limit=2, counted=False) == [b"news"]
    told: set[str] = set()
    assert queue.take(100, limit=2, counted=False, told=told) == [b"news"]
    assert queue.take(100, limit=2, counted=False, told=told) == []
    assert [queue.take(100, limit=2) for _ in range(3)] == [[b"news"], [b"news"], []]
