"""Faults over HTTP that end by themselves, which takes its time."""

import asyncio

import pytest

from api.fakes import FakeView
from api.linked import client_of
from gossamer.clock import SystemClock
from gossamer.faults import FaultTable, FaultyClock


@pytest.fixture
def view():
    made = FakeView()
    made.faults = FaultTable(lambda address: None)
    return made


async def test_faults_may_end_by_themselves(view):
    async with client_of(view) as client:
        await client.put(
            "/api/v1/drill/faults", json={"faults": [{"peer": "*", "cut": True}], "seconds": 0.01}
        )
        async with asyncio.timeout(10):
            while view.faults.faults:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)


async def test_the_wall_clock_jumps_and_intervals_do_not(view):
    clock = view.faults.clock = FaultyClock(SystemClock())
    before, interval = clock.wall(), clock.monotonic()
    async with client_of(view) as client:
        told = (await client.put("/api/v1/drill/clock", json={"offset": 3600})).json()
        assert told["offset"] == 3600.0
        assert 3600 <= told["wall"] - before < 3660
        assert clock.monotonic() - interval < 60
        await client.put("/api/v1/drill/clock", json={"offset": -5, "seconds": 0.01})
        async with asyncio.timeout(10):
            while clock.offset:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
