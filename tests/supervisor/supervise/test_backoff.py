"""Back-off: how long a restart waits; what happens meanwhile is in the scenarios."""

from __future__ import annotations

import asyncio
import random

import pytest

import gossamer.supervisor as otp
from gossamer.supervisor.supervise.children import Delays
from tests.supervisor.supervise.children import probe

STEADY = otp.Backoff(initial=1.0, maximum=8.0, jitter=0.0, reset_after=100.0)


def test_waits_double_up_to_the_maximum():
    delays = Delays(STEADY, random.Random(1))
    assert [delays.next(float(now)) for now in range(6)] == [1, 2, 4, 8, 8, 8]


def test_a_child_that_ran_long_enough_begins_at_the_first_wait():
    delays = Delays(STEADY, random.Random(1))
    assert [delays.next(0.0), delays.next(50.0), delays.next(151.9), delays.next(256.0)] == [1, 2, 4, 1]


def test_jitter_only_shortens_and_is_that_of_the_given_randomness():
    backoff = otp.Backoff(initial=1.0, maximum=1.0, jitter=0.5)
    first, second = ([Delays(backoff, random.Random(seed)).next(0.0) for seed in range(20)] for _ in "12")
    assert first == second
    assert all(0.5 <= delay <= 1.0 for delay in first)
    assert len(set(first)) > 10


def test_a_child_that_fails_for_weeks_does_not_overflow():
    delays = Delays(otp.Backoff(factor=10.0), random.Random(1))
    assert max(delays.next(0.0) for _ in range(5000)) <= 30.0


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"initial": 0}, "initial"),
        ({"initial": 5, "maximum": 1}, "maximum"),
        ({"factor": 0.5}, "factor"),
        ({"jitter": 1}, "jitter"),
        ({"reset_after": -1}, "reset_after"),
    ],
)
def test_values_that_make_no_sense_are_named(wrong, key):
    with pytest.raises(otp.BadChildSpec) as caught:
        otp.Backoff(**wrong)
    assert caught.value.key == key
    with pytest.raises(otp.BadChildSpec, match="a Backoff or None"):
        otp.ChildSpec("a", otp.spawn, backoff=3)


async def test_a_childs_own_back_off_goes_before_that_of_its_supervisor(rt):
    slow = otp.Backoff(initial=5.0, jitter=0.0)
    await otp.Supervisor.start_link(
        [probe("a", []), probe("b", [], backoff=slow)], intensity=9, backoff=STEADY
    )
    for name in "ab":
        otp.exit(otp.whereis(name), "kill")
    await asyncio.sleep(1.1)
    assert otp.whereis("a") is not None
    assert otp.whereis("b") is None
    await asyncio.sleep(4.0)
    assert otp.whereis("b") is not None
