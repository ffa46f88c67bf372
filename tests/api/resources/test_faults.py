"""Faults over HTTP: only where the node's configuration has a gate, only from this machine."""

import asyncio

import pytest

from api.fakes import FakeView
from api.linked import client_of
from gossamer.clock import SystemClock
from gossamer.faults import Fault, FaultTable, FaultyClock

FAULTS = "/api/v1/drill/faults"


@pytest.fixture
def view():
    made = FakeView()
    made.faults = FaultTable(lambda address: None)
    return made


async def test_faults_are_replaced_as_a_whole_and_shown(view):
    async with client_of(view) as client:
        order = {"faults": [{"peer": "node2@127.0.0.1", "cut": True, "direction": "out"}, {"peer": "*"}]}
        answer = await client.put(FAULTS, json=order)
        assert answer.status_code == 200
        assert view.faults.faults == (
            Fault(peer="node2@127.0.0.1", cut=True, direction="out"),
            Fault(peer="*"),
        )
        shown = (await client.get(FAULTS)).json()
        assert shown == answer.json()
        assert shown["faults"][1] == {
            "peer": "*",
            "direction": "both",
            "cut": False,
            "loss": 0.0,
            "delay": 0.0,
            "jitter": 0.0,
        }
        assert (await client.put(FAULTS, json={"faults": []})).json()["faults"] == []
        assert view.faults.faults == ()


async def test_faults_may_end_by_themselves(view):
    async with client_of(view) as client:
        await client.put(FAULTS, json={"faults": [{"peer": "*", "cut": True}], "seconds": 0.01})
        async with asyncio.timeout(10):
            while view.faults.faults:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)


async def test_a_node_without_a_gate_refuses_and_says_which_key(view):
    view.faults = None
    async with client_of(view) as client:
        for answer in (await client.get(FAULTS), await client.put(FAULTS, json={"faults": []})):
            assert answer.status_code == 400
            assert "drill.faults is false" in answer.json()["detail"]


async def test_nobody_from_elsewhere_breaks_a_node(view):
    async with client_of(view, "192.0.2.7") as client:
        answer = await client.put(FAULTS, json={"faults": [{"peer": "*", "cut": True}]})
        assert answer.status_code == 401
    assert view.faults.faults == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"faults": [{"cut": True}]},
        {"faults": [{"peer": ""}]},
        {"faults": [{"peer": "*", "loss": 2}]},
        {"faults": [{"peer": "*", "delay": -1}]},
        {"faults": [{"peer": "*", "direction": "up"}]},
        {"faults": [{"peer": "*", "cutt": True}]},
        {"faults": [], "seconds": 0},
        {"faults": [{"peer": "*"}] * 1001},
    ],
)
async def test_an_order_that_makes_no_sense_changes_nothing(view, wrong):
    view.faults.set([Fault(peer="*", delay=1)])
    async with client_of(view) as client:
        assert (await client.put(FAULTS, json=wrong)).status_code == 422
    assert view.faults.faults == (Fault(peer="*", delay=1),)


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
        view.faults = None
        assert (await client.put("/api/v1/drill/clock", json={"offset": 1})).status_code == 400
