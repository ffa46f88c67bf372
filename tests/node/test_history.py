"""The last hour of a node: what is kept, and what is told of it."""

import asyncio

import pytest

from gossamer.node.history import HistoryKeeper, Reading, Ring
from gossamer.supervisor import Runtime


def reading(second, *, sent=0, wall=1200.0, lag=0.0, connections=0):
    return Reading(
        at=wall + second,
        monotonic=float(second),
        received=0,
        sent=sent,
        dropped=0,
        cpu=second / 4,
        connections=connections,
        memory=1,
        loop_lag=lag,
    )


def test_points_stand_at_whole_steps_and_have_rates():
    ring = Ring()
    for turn in range(13):
        # Twice as fast in the second half minute.
        sent = turn * 50 if turn <= 6 else 300 + (turn - 6) * 100
        ring.add(reading(turn * 5, sent=sent, lag=turn / 100, connections=turn))
    history = ring.history("node1", now=1261.0, seconds=3600, step=30)
    assert (history.node, history.step, history.at) == ("node1", 30, (1230.0, 1260.0, 1290.0))
    assert history.sent == (10.0, pytest.approx(18.333, abs=0.001), 20.0)
    assert history.cpu == (0.25, 0.25, 0.25)
    assert history.loop_lag == (0.05, 0.11, 0.12)
    assert history.connections == (5, 11, 12)
    assert ring.history("node1", now=1261.0, seconds=31, step=5).at == tuple(
        1240.0 + 5 * number for number in range(6)
    )


def test_the_oldest_go():
    ring = Ring(kept=4)
    for turn in range(100):
        ring.add(reading(turn * 5))
    assert len(ring.history("n", now=9999.0, seconds=3600 * 24, step=5).at) == 3


def test_a_pause_is_a_gap_and_its_rate_is_over_the_whole_of_it():
    ring = Ring()
    ring.add(reading(0))
    ring.add(reading(5, sent=5))
    ring.add(reading(125, sent=125))
    history = ring.history("n", now=2000.0, seconds=3600, step=5)
    assert (history.at, history.sent) == ((1210.0, 1330.0), (1.0, 1.0))


def test_a_wall_clock_that_was_set_back_shows_nothing_of_the_future():
    ring = Ring()
    ring.add(reading(0, wall=9000.0))
    ring.add(reading(5, wall=9000.0))
    ring.add(reading(10, wall=1000.0))
    assert ring.history("n", now=1010.0, seconds=3600, step=5).at == (1015.0,)


async def test_a_keeper_fills_the_ring():
    runtime = Runtime(node="n", creation=1)
    taken = []

    def read():
        taken.append(reading(len(taken)))
        return taken[-1]

    ring = Ring()
    pid = await runtime.start(HistoryKeeper, ring, read, interval=0.001, name="history")
    while len(taken) < 3:
        # Its calls are answered between two readings.
        assert runtime.find("history").pid == pid
        await asyncio.sleep(0)
    await runtime.stop()
    assert len(ring.history("n", now=2000.0, seconds=3600, step=5).at) == 1
