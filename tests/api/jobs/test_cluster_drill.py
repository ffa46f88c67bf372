"""Drills of the cluster that answers: nobody is cut before all were told, and every cut ends by itself."""

import asyncio

import pytest

from api.fakes import FakeView
from api.linked import NAMES, client_of
from gossamer.api.jobs import cluster_drill
from gossamer.api.jobs.cluster_drill import orders_of, verdicts_of
from gossamer.api.jobs.drill_plan import DrillMark
from gossamer.faults import Fault, FaultTable, parse_shape

DRILLS = "/api/v1/drills"
ORDER = {"kind": "partition", "on": "this-cluster", "seconds": 1}


@pytest.fixture
async def views(cluster, tmp_path, monkeypatch):
    """Three nodes with gates, where waiting takes no time."""
    for name in ("BEGIN_IN", "QUIET", "LOOK_INTERVAL", "HEAL_TIMEOUT"):
        monkeypatch.setattr(cluster_drill, name, 0.01)
    views = cluster([])
    for number, view in enumerate(views):
        kept = FakeView(directory=tmp_path / str(number))
        view.drills, view.programs = kept.drills, kept.programs
        view.faults = FaultTable(lambda address: None)
        # Those that others see: all online.
        view.known = [row.model_copy(update={"status": "online"}) for row in view.known]
    yield views
    for view in views:
        if view.programs.task is not None:
            view.programs.task.cancel()
            await asyncio.wait({view.programs.task})
        view.faults.clear()


def test_each_end_holds_back_what_it_opened():
    orders = orders_of(NAMES, parse_shape("2/1", 3).cuts)
    assert {fault["peer"] for fault in orders[NAMES[0]]} == {NAMES[2]}
    assert {fault["peer"] for fault in orders[NAMES[2]]} == set(NAMES[:2])
    assert orders_of(NAMES, parse_shape("1>2", 3).cuts) == {
        NAMES[0]: [{"peer": NAMES[1], "direction": "out", "cut": True}],
        NAMES[1]: [{"peer": NAMES[0], "direction": "in", "cut": True}],
        NAMES[2]: [],
    }


async def test_all_nodes_are_told_once_with_the_end_of_the_cut(views):
    told = {}
    for view in views:

        def note(faults, *, seconds=None, begin_in=0.0, name=view.name):
            told.setdefault(name, []).append((tuple(faults), seconds, begin_in))

        view.faults.set = note
    async with client_of(views[0]) as client:
        answer = await client.post(DRILLS, json=ORDER)
        assert (answer.status_code, answer.json()["state"]) == (201, "running")
    assert {name: (seconds, begin) for name, [(_, seconds, begin), *_] in told.items()} == dict.fromkeys(
        NAMES, (1.0, cluster_drill.BEGIN_IN)
    )
    assert Fault(peer=NAMES[0], direction="out", cut=True) in told[NAMES[2]][0][0]


async def test_of_two_orders_at_once_one_is_refused_and_leaves_the_gates_of_the_other(views):
    told = []
    for view in views:
        view.faults.set = lambda faults, **_: told.append(tuple(faults))
    async with client_of(views[0]) as client:
        order = {**ORDER, "seconds": 600}
        answers = await asyncio.gather(*(client.post(DRILLS, json=order) for _ in range(2)))
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    assert len(told) == len(views), "each node was told once"


async def test_what_came_of_it_is_told(views):
    async with client_of(views[0]) as client:
        id = (await client.post(DRILLS, json=ORDER)).json()["id"]  # noqa: A001
        await asyncio.wait({views[0].programs.task})
        told = (await client.get(f"{DRILLS}/{id}")).json()
    # The nodes that are faked have a split open for ever.
    assert (told["state"], [one["kept"] for one in told["verdicts"]]) == ("broken", [None, False])
    assert (bool(told["words"]), told["report"]) == (True, False), "it has no page"
    assert all(view.faults.faults == () for view in views)


async def test_one_node_without_a_gate_and_nobody_is_cut(views):
    views[2].faults = None
    async with client_of(views[0]) as client:
        answer = await client.post(DRILLS, json=ORDER)
        assert answer.status_code == 503
        assert "drill.faults is false" in answer.json()["detail"]
        assert (await client.get(DRILLS)).json()["items"] == []
    await asyncio.sleep(0.05)
    assert [view.faults.faults for view in views[:2]] == [(), ()]
    views[2].faults = FaultTable(lambda address: None)


async def test_a_cluster_that_is_not_whole_is_not_cut(views):
    views[0].known[1] = views[0].known[1].model_copy(update={"status": "offline"})
    async with client_of(views[0]) as client:
        answer = await client.post(DRILLS, json=ORDER)
        assert (answer.status_code, "not whole" in answer.json()["detail"]) == (400, True)


async def test_stopped_it_opens_the_gates_that_it_reaches(views):
    async with client_of(views[0]) as client:
        id = (await client.post(DRILLS, json={**ORDER, "seconds": 600})).json()["id"]  # noqa: A001
        async with asyncio.timeout(10):
            while not views[2].faults.faults:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert (await client.delete(f"{DRILLS}/{id}")).json()["state"] == "stopped"
    assert [view.faults.faults for view in views] == [(), (), ()]


@pytest.mark.parametrize(
    "more", [{"kind": "kill"}, {"load": 5}, {"nodes": 3}, {"split": "3/3"}, {"autoheal": 3}]
)
async def test_what_a_running_cluster_cannot_do_is_refused(views, more):
    async with client_of(views[0]) as client:
        assert (await client.post(DRILLS, json={**ORDER, **more})).status_code == 422
    assert all(view.faults.faults == () for view in views)


def test_a_split_that_some_side_saw_late_or_never_breaks_the_promise():
    def judge(*downs):
        marks = [DrillMark(at=at, node=node, peer=peer, kind="down") for at, node, peer in downs]
        verdicts = verdicts_of(marks, [["a", "b"], ["c"]], whole=20.0, cut=2.0, mended=12.0, shape="2/1")
        return [one.kept for one in verdicts]

    assert judge((5, "a", "c"), (6, "c", "a")) == [True, True]
    assert judge((5, "a", "c"), (8, "c", "b")) == [False, True]
    assert judge((5, "a", "c"), (5, "a", "b")) == [False, True]
