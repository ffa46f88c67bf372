"""The bench of sessions loads what its rows say, waits for replicas, and shows what is not a rate."""

import sys
from functools import partial
from pathlib import Path

import pytest

from bench.faulty import compiled, told

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import sessions

PORTS = ("pub_ports", "sub_ports")
run = partial(told, ports=PORTS, **sessions.CLOSED_LOOP | {"pubs": 2, "subs": 2, "drain": 0.3, "count": 200})


@pytest.mark.real
@compiled
async def test_of_subscribers_that_are_away_nothing_is_expected():
    outcome = await run(**sessions.LOADS["offline"])
    assert [outcome[key] for key in ("expected", "received", "lost", "dropped_connections")] == [0, 0, 0, 0]


def test_a_group_without_three_voters_is_not_whole():
    def group(voters):
        return {"members": [{"voter": number < voters} for number in range(3)]}

    assert sessions.is_whole([group(3), group(3)])
    assert not sessions.is_whole([group(3), group(2)])
    assert not sessions.is_whole([])


async def test_each_item_is_taken_once():
    async def call(item):
        return item

    assert sorted(await sessions.in_parallel(4, call, range(10))) == list(range(10))


def test_rates_are_medians_and_losses_are_sums():
    def rounds(*pairs):
        return [{"connect, sessions/s": rate, sessions.WRONG: wrong} for rate, wrong in pairs]

    found = {"off": rounds((100, 0), (300, 2), (200, 1)), "auto": rounds((50, 0), (50, 0), (50, 0))}
    _, losses, rates = sessions.table(found).splitlines()
    assert losses.split()[-3:] == ["3", "0", "0.00"]
    assert rates.split()[-3:] == ["200", "50", "0.25"]
