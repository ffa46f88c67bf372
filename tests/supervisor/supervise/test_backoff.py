"""Back-off: restarts wait longer and longer, in the order of the strategy, and an end cuts the wait short."""

from __future__ import annotations

import asyncio
import random

import pytest

import gossamer.supervisor as otp
from gossamer.supervisor.supervise.children import Delays
from tests.supervisor.harness import ended, settle
from tests.supervisor.supervise.test_supervisor import probe, running

STEADY = otp.Backoff(initial=1.0, maximum=8.0, jitter=0.0, reset_after=100.0)


async def later(seconds):
    """Let so much virtual time pass, and what is due then run."""
    await asyncio.sleep(seconds)
    await settle(50)


async def states(sup):
    return [
        info.pid if info.pid in (None, "restarting") else "runs"
        for info in await otp.Supervisor.which_children(sup)
    ]


def kill(name):
    otp.exit(otp.whereis(name), "kill")


# The machine.


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


# In a supervisor.


async def test_a_storm_of_restarts_is_a_handful(rt):
    """A child that fails at once, under an intensity that allows anything."""
    starts = []

    async def start():
        starts.append(rt.loop.time())
        if len(starts) > 1:
            raise OSError("still broken")
        return await probe("a", []).start()

    sup = await otp.Supervisor.start_link(
        [otp.ChildSpec("a", start)], intensity=10**9, period=1.0, backoff=STEADY, rng=random.Random(1)
    )
    kill("a")
    await later(31.5)
    began = starts[0]
    assert [round(at - began, 3) for at in starts] == [0, 1, 3, 7, 15, 23, 31]
    assert await states(sup) == ["restarting"]


async def test_a_childs_own_back_off_goes_before_that_of_its_supervisor(rt):
    slow = otp.Backoff(initial=5.0, jitter=0.0)
    await otp.Supervisor.start_link(
        [probe("a", []), probe("b", [], backoff=slow)], intensity=9, backoff=STEADY
    )
    kill("a")
    kill("b")
    await later(1.1)
    assert otp.whereis("a") is not None
    assert otp.whereis("b") is None
    await later(4.0)
    assert otp.whereis("b") is not None


@pytest.mark.parametrize(
    ("strategy", "stopped", "started"),
    [
        ("one_for_one", [], ["+b"]),
        ("rest_for_one", ["-d", "-c"], ["+b", "+c", "+d"]),
        ("one_for_all", ["-d", "-c", "-a"], ["+a", "+b", "+c", "+d"]),
    ],
)
async def test_others_stop_at_once_and_start_in_order_when_the_wait_is_over(rt, strategy, stopped, started):
    events = []
    sup = await otp.Supervisor.start_link(
        [probe(n, events) for n in "abcd"], strategy=strategy, backoff=STEADY
    )
    del events[:]
    kill("b")
    await settle(50)
    assert events == stopped
    waiting = {"b", *(name[1:] for name in stopped)}
    assert await states(sup) == ["restarting" if name in waiting else "runs" for name in "abcd"]
    for name in waiting:
        with pytest.raises(otp.ChildRestarting):
            await otp.Supervisor.restart_child(sup, name)
    await later(0.9)
    assert events == stopped
    await later(0.2)
    assert events == [*stopped, *started]
    assert await running(sup) == ["a", "b", "c", "d"]


async def test_an_elder_that_fails_takes_over_the_wait_of_those_behind_it(rt):
    events = []
    sup = await otp.Supervisor.start_link(
        [probe(n, events) for n in "abc"], strategy="rest_for_one", intensity=9, backoff=STEADY
    )
    kill("b")
    await later(0.5)
    kill("a")
    await settle(50)
    del events[:]
    await later(0.9)
    assert events == [], "b started before the one that it follows"
    await later(0.2)
    assert events == ["+a", "+b", "+c"]
    await later(9.0)
    assert events == ["+a", "+b", "+c"]
    assert await running(sup) == ["a", "b", "c"]


@pytest.mark.parametrize("strategy", ["rest_for_one", "one_for_all"])
async def test_a_child_that_was_added_meanwhile_and_fails_joins_the_wait(rt, strategy):
    events = []
    sup = await otp.Supervisor.start_link(
        [probe(n, events) for n in "ab"], strategy=strategy, intensity=9, backoff=STEADY
    )
    kill("a")
    await settle(50)
    await otp.Supervisor.start_child(sup, probe("c", events))
    kill("c")
    await settle(50)
    assert await states(sup) == ["restarting"] * 3
    del events[:]
    await later(1.1)
    assert events == ["+a", "+b", "+c"]
    await later(9.0)
    assert events == ["+a", "+b", "+c"]


async def test_a_failed_attempt_waits_longer_and_stops_what_had_started(rt):
    events, fails = [], []
    specs = [probe("a", events), probe("b", events, fails=fails), probe("c", events)]
    await otp.Supervisor.start_link(specs, strategy="one_for_all", intensity=9, backoff=STEADY)
    fails.append("no luck")
    kill("c")
    await settle(50)
    del events[:]
    await later(1.1)
    assert events == ["+a", "-a"]
    await later(1.1)
    assert events == ["+a", "-a", "+a", "+b", "+c"]


@pytest.mark.parametrize("strategy", ["one_for_one", "rest_for_one", "one_for_all"])
async def test_a_supervisor_that_waits_ends_at_once(rt, strategy):
    otp.trap_exit(True)
    events = []
    sup = await otp.Supervisor.start_link(
        [probe(n, events) for n in "abc"], strategy=strategy, backoff=STEADY
    )
    kill("b")
    await settle(50)
    begun = rt.loop.time()
    otp.exit(sup, "shutdown")
    assert await ended(sup) == "shutdown"
    assert rt.loop.time() == begun
    del events[:]
    await later(20.0)
    assert events == []


async def test_terminating_the_child_that_failed_ends_the_wait(rt):
    events = []
    sup = await otp.Supervisor.start_link(
        [probe(n, events) for n in "abc"], strategy="one_for_all", backoff=STEADY
    )
    kill("b")
    await settle(50)
    await otp.Supervisor.terminate_child(sup, "b")
    assert await states(sup) == [None, None, None]
    del events[:]
    await later(20.0)
    assert events == []
    # A wait that is over does not come back with the next one.
    await otp.Supervisor.restart_child(sup, "a")
    assert events == ["+a"]


async def test_an_order_of_an_earlier_wait_is_stale(rt):
    sup = await otp.Supervisor.start_link([probe("a", [])], intensity=9, backoff=STEADY)
    kill("a")
    await settle(50)
    await otp.Supervisor.terminate_child(sup, "a")
    await otp.Supervisor.restart_child(sup, "a")
    kill("a")
    await later(1.5)
    assert await states(sup) == ["restarting"], "the second wait is 2 s"
    await later(0.6)
    assert await states(sup) == ["runs"]


async def test_failures_count_when_they_happen_and_giving_up_does_not_wait(rt):
    otp.trap_exit(True)
    sup = await otp.Supervisor.start_link([probe("a", [])], intensity=1, period=100.0, backoff=STEADY)
    kill("a")
    await later(1.1)
    begun = rt.loop.time()
    kill("a")
    assert await ended(sup) == "shutdown"
    assert rt.loop.time() == begun


async def test_without_back_off_a_restart_is_at_once(rt):
    await otp.Supervisor.start_link([probe("a", [])])
    begun = rt.loop.time()
    kill("a")
    await settle(50)
    assert otp.whereis("a") is not None
    assert rt.loop.time() == begun


# In a dynamic supervisor.


async def test_children_of_a_dynamic_supervisor_wait_each_for_itself(rt):
    events = []
    sup = await otp.DynamicSupervisor.start_link(intensity=9, backoff=STEADY, max_children=2)
    for name in "ab":
        await otp.DynamicSupervisor.start_child(sup, probe(name, events))
    kill("a")
    await later(1.1)
    kill("a")
    await later(1.1)
    assert [info.pid == "restarting" for info in await otp.DynamicSupervisor.which_children(sup)] == [
        False,
        True,
    ]
    assert (await otp.DynamicSupervisor.count_children(sup)).active == 1
    kill("b")
    await later(1.1)
    assert (await otp.DynamicSupervisor.count_children(sup)).active == 2


async def test_a_dynamic_supervisor_that_waits_ends_at_once(rt):
    otp.trap_exit(True)
    fails = []
    sup = await otp.DynamicSupervisor.start_link(intensity=9, backoff=STEADY)
    await otp.DynamicSupervisor.start_child(sup, probe("a", [], fails=fails))
    fails.append("no luck")
    kill("a")
    await later(1.5)
    begun = rt.loop.time()
    otp.exit(sup, "shutdown")
    assert await ended(sup) == "shutdown"
    assert rt.loop.time() == begun
