"""The suite: every kind of drill is in it, what cannot be run is said, and one that fails does not end it."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from msgspec.structs import replace

from drill.made import NODES, record
from gossamer.drill.record import DrillRecord, Plan
from gossamer.drill.report.promises import judge
from gossamer.drill.report.words import name_of
from gossamer.drill.run.script import check, lacking, script_of
from gossamer.drill.run.suite import (
    SuiteResult,
    choose_plans,
    run_suite,
    suite_json,
    suite_plans,
)
from gossamer.drill.stage.backend import Ability, BackEndError, GateBackEnd
from gossamer.errors import WrongValueError
from gossamer.faults import DrillKind

ALL = GateBackEnd.abilities
CUTS: frozenset[Ability] = frozenset()
"""What every back end can do takes none."""


async def well(plan: Plan) -> DrillRecord:
    made = record()
    return replace(made, verdicts=judge(made))


@pytest.mark.parametrize("quick", [False, True])
def test_every_drill_of_the_suite_fits_its_nodes_and_has_a_name_of_its_own(quick: bool):
    found = suite_plans(backend="gate", quick=quick)
    assert len({name_of(plan) for plan in found}) == len(found)
    assert all(script_of(plan).split for plan in found)
    if not quick:
        assert {plan.kind for plan in found} == set(get_args(DrillKind))
        assert all(plan.settings.keys() <= {"delay", "jitter", "loss", "jump", "period"} for plan in found)


def test_only_some_of_them():
    found = suite_plans(backend="gate")
    assert [name_of(plan) for plan in choose_plans(found, ["kill", "partition 1>2"])] == [
        "partition 1>2",
        "kill node5",
    ]
    assert choose_plans(found, []) == found
    with pytest.raises(WrongValueError, match="got 'earthquake', expected some of partition"):
        choose_plans(found, ["kill", "earthquake"])


@pytest.mark.parametrize(
    ("plan", "wanted"),
    [
        (Plan(kind="partition", shape="3/2", nodes=NODES), []),
        (Plan(kind="partition", shape="1>2", nodes=NODES), []),
        (Plan(kind="slow", shape="3/2", nodes=NODES, settings={"delay": 0.1}), ["delay"]),
        (
            Plan(kind="slow", shape="3/2", nodes=NODES, settings={"jitter": 0.1, "loss": 0.1}),
            ["delay", "loss"],
        ),
        (Plan(kind="slow", shape="3/2", nodes=NODES, settings={"loss": 0.1}), ["loss"]),
        (Plan(kind="clock", shape="1", nodes=NODES), ["clock"]),
        (Plan(kind="kill", shape="1", nodes=NODES), []),
        (Plan(kind="slow-disc", shape="1", nodes=NODES), ["slow disc"]),
        (Plan(kind="rolling", shape="", nodes=NODES), []),
    ],
)
def test_what_a_drill_takes_is_known_before_it_begins(plan: Plan, wanted: list[str]):
    assert script_of(plan).needs == wanted
    assert lacking(plan, ALL) == []
    assert lacking(plan, CUTS) == [ability for ability in wanted if ability not in CUTS]


def test_a_drill_that_the_back_end_cannot_do_is_refused_before_anything_is_made():
    clock = Plan(kind="clock", shape="1", nodes=NODES, backend="netns")
    with pytest.raises(BackEndError, match=r"takes clock, which cannot be had here; .* take --backend gate"):
        check(clock, CUTS)
    slow = Plan(kind="slow", shape="3/2", nodes=NODES, backend="netns", settings={"delay": 0.1, "loss": 0.1})
    with pytest.raises(BackEndError, match=r"delay and loss, .* load netem"):
        check(slow, CUTS)
    check(slow, ALL)


async def test_what_the_back_end_cannot_do_is_left_out_and_told():
    found = choose_plans(suite_plans(backend="netns"), ["slow", "clock", "kill"])
    told: list[tuple[str, bool, str]] = []
    result = await run_suite(
        found,
        abilities=CUTS,
        carry_out=well,
        tell=lambda name, made, why: told.append((name, made is None, why)),
    )
    assert list(result.records) == ["kill node5"]
    assert result.skipped == {
        "slow link 3/2": "back end netns has no delay and no loss here",
        "clock node5": "back end netns has no clock here",
    }
    assert [(name, skipped) for name, skipped, _ in told] == [
        ("slow link 3/2", True),
        ("kill node5", False),
        ("clock node5", True),
    ]
    assert result.summary().kept


async def test_of_a_slow_link_the_loss_alone_is_drilled_where_nothing_can_be_late():
    ran: list[Plan] = []

    async def note(plan: Plan) -> DrillRecord:
        ran.append(plan)
        return await well(plan)

    await run_suite(
        choose_plans(suite_plans(backend="netns"), ["slow"]), abilities=CUTS | {"loss"}, carry_out=note
    )
    assert [(plan.settings["delay"], plan.settings["loss"]) for plan in ran] == [(0.0, 0.05)]


async def test_a_drill_that_cannot_begin_breaks_the_suite_and_the_next_is_run():
    async def carry_out(plan: Plan) -> DrillRecord:
        if plan.kind == "kill":
            raise BackEndError(backend="gate", reason="no ports", remedy="free some")
        return await well(plan)

    result = await run_suite(
        choose_plans(suite_plans(backend="gate"), ["kill", "pause"]), abilities=ALL, carry_out=carry_out
    )
    assert list(result.records) == ["kill node5", "pause node5"]
    assert result.records["kill node5"].failure == "back end gate: no ports; free some"
    assert not result.summary().kept
    told = json.loads(suite_json(result))
    assert (told["kept"], list(told["drills"])) == (False, ["kill node5", "pause node5"])


async def test_what_there_was_is_known_when_somebody_interrupts():
    async def carry_out(plan: Plan) -> DrillRecord:
        if plan.kind == "pause":
            raise KeyboardInterrupt
        return await well(plan)

    result = SuiteResult()
    with pytest.raises(KeyboardInterrupt):
        await run_suite(
            choose_plans(suite_plans(backend="gate"), ["kill", "pause"]),
            abilities=ALL,
            carry_out=carry_out,
            result=result,
        )
    assert list(result.records) == ["kill node5"]
