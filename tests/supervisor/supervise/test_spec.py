"""Specifications and flags, the restart window, and how long a back-off waits."""

from __future__ import annotations

import random

import pytest

from gossamer.supervisor import Backoff, BadChildSpec, ChildSpec
from gossamer.supervisor.supervise.children import Delays, RestartWindow
from gossamer.supervisor.supervise.spec import Flags, check_children

STEADY = Backoff(initial=1.0, maximum=8.0, jitter=0.0, reset_after=100.0)


async def start():
    return None


@pytest.mark.parametrize(
    ("intensity", "times", "admitted"),
    [(1, (0, 5.1, 10), (True, True, False)), (1, (0, 5), (True, False)), (0, (0,), (False,))],
)
def test_the_window_forgets_a_restart_older_than_the_period(intensity, times, admitted):
    """One exactly as old still counts."""
    window = RestartWindow(intensity=intensity, period=5)
    assert tuple(window.admit(t) for t in times) == admitted


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        pytest.param((0, 1, 2, 3, 4, 5), (1, 2, 4, 8, 8, 8), id="waits double up to the maximum"),
        pytest.param((0, 50, 151.9, 256), (1, 2, 4, 1), id="a child that ran long enough begins again"),
    ],
)
def test_waits(failures, waits):
    delays = Delays(STEADY, random.Random(1))
    assert tuple(delays.next(float(now)) for now in failures) == waits


def test_jitter_only_shortens_and_is_that_of_the_given_randomness():
    backoff = Backoff(initial=1.0, maximum=1.0, jitter=0.5)
    first, second = ([Delays(backoff, random.Random(seed)).next(0.0) for seed in range(20)] for _ in "12")
    assert first == second
    assert all(0.5 <= delay <= 1.0 for delay in first)
    assert len(set(first)) > 10


def test_a_child_that_fails_for_weeks_does_not_overflow():
    delays = Delays(Backoff(factor=10.0), random.Random(1))
    assert max(delays.next(0.0) for _ in range(5000)) <= 30.0


def test_defaults_are_otps():
    spec, flags = ChildSpec("a", start), Flags()
    assert (spec.restart, spec.shutdown, spec.type, spec.significant) == ("permanent", 5.0, "worker", False)
    assert ChildSpec("b", start, type="supervisor").shutdown == "infinity"
    assert (flags.strategy, flags.intensity, flags.period) == ("one_for_one", 1, 5.0)
    assert flags.auto_shutdown == "never"


WRONG = {
    Backoff: [
        {"initial": 0},
        {"initial": "1s"},
        {"maximum": 0.01},
        {"factor": 0.5},
        {"jitter": 1},
        {"reset_after": -1},
    ],
    ChildSpec: [
        {"start": 3},
        {"restart": "always"},
        {"shutdown": -1},
        {"shutdown": "soon"},
        {"shutdown": True},
        {"type": "boss"},
        {"significant": True},
        {"backoff": 3},
    ],
    Flags: [
        {"strategy": "one_for_some"},
        {"intensity": -1},
        {"intensity": 1.5},
        {"intensity": True},
        {"period": 0},
        {"period": "5s"},
        {"auto_shutdown": "yes"},
        {"backoff": 3},
    ],
}


@pytest.mark.parametrize(("kind", "wrong"), [(kind, wrong) for kind, all_ in WRONG.items() for wrong in all_])
def test_a_value_that_makes_no_sense_is_named_by_its_key(kind, wrong):
    (key,) = wrong
    where = {Backoff: "backoff", ChildSpec: "child 'a'", Flags: "supervisor"}[kind]
    with pytest.raises(BadChildSpec, match=rf"{where}: {key} is") as caught:
        kind(**({"id": "a", "start": start} if kind is ChildSpec else {}) | wrong)
    assert caught.value.key == key


def test_children_must_fit_the_supervisor():
    twice = [ChildSpec("a", start), ChildSpec("a", start)]
    with pytest.raises(BadChildSpec, match="id that no other child has"):
        check_children(Flags(), twice)
    significant = ChildSpec("a", start, restart="transient", significant=True)
    with pytest.raises(BadChildSpec, match="auto_shutdown"):
        check_children(Flags(), [significant])
    check_children(Flags(auto_shutdown="any_significant"), [significant])
    with pytest.raises(BadChildSpec, match="expected a ChildSpec"):
        check_children(Flags(), ["a"])
