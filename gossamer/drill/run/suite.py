"""Suite of all drills: the plans, the selection, and the results.

Rules: 1. A drill that the back end does not support is skipped and reported; if it supports a part, that part
is run.  2. A drill that does not complete breaks the suite, and the next one is still run.  3. The suite is
independent of back ends and displays: ``carry_out`` is passed in.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from gossamer.drill.record import BackEndName, DrillRecord, Plan, Setting, unnamed
from gossamer.drill.report.promises import judge
from gossamer.drill.report.words import Summary, name_of, summarise
from gossamer.drill.run.script import lacking
from gossamer.drill.stage.backend import Ability
from gossamer.errors import GossamerError, WrongValueError
from gossamer.faults import DRILLS, DrillKind

QUICK: dict[str, Setting] = {"GOSSAMER_CLUSTER__AUTOHEAL": "3s"}
"""Configuration of the nodes of a quick suite."""
_Shapes = Mapping[DrillKind, tuple[str, ...]]
_ALL: _Shapes = {
    "partition": ("3/2", "4/1", "2/2/1", "2/2", "1/1/1", "1>2", "1-2"),
    "flapping": ("3/2",),
    "slow": ("3/2",),
    "rolling": ("",),
    "kill": ("5",),
    "pause": ("5",),
    "clock": ("5",),
    "coordinator": ("3/2",),
    "disk": ("5",),
    "kill-owner": ("5",),
    "kill-quorum": ("5",),
    "slow-disc": ("5",),
    "disc-fault": ("5",),
}
_FEW: _Shapes = {
    "partition": ("2/1", "1/1/1"),
    "slow": ("2/1",),
    "kill": ("3",),
    "pause": ("3",),
    "coordinator": ("2/1",),
}


@dataclass(slots=True)
class SuiteResult:
    """Records of drills by name, and why others were skipped."""

    records: dict[str, DrillRecord] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def summary(self) -> Summary:
        """Return the summary of the suite."""
        return summarise(self.records, self.skipped)


def suite_plans(
    *,
    backend: BackEndName,
    quick: bool = False,
    load: float | None = None,
    seed: int = 0,
    hold: float | None = None,
) -> list[Plan]:
    """Return the plans of the suite in order; ``hold``: duration of each fault in seconds."""
    nodes, seconds, aside, rate = (3, 10.0, 2.0, 200.0) if quick else (5, 20.0, 5.0, 500.0)
    return [
        Plan(
            kind=kind,
            shape=shape,
            nodes=unnamed(sum(map(int, shape.split("/"))) if "/" in shape else nodes),
            backend=backend,
            seconds=seconds if hold is None else hold,
            load=rate if load is None else load,
            seed=seed,
            warm_up=aside,
            after=aside,
            settings={**DRILLS[kind].defaults, **(QUICK if quick else {})},
        )
        for kind, shapes in (_FEW if quick else _ALL).items()
        for shape in shapes
    ]


def choose_plans(found: Sequence[Plan], only: Sequence[str]) -> list[Plan]:
    """Return plans whose kind or name is in ``only``; all if it is empty.

    Raises:
        WrongValueError: a name matches no plan.
    """
    words = {word: None for plan in found for word in (plan.kind, name_of(plan))}
    if unknown := [word for word in only if word not in words]:
        raise WrongValueError(f"--only: got {unknown[0]!r}, expected some of {', '.join(words)}")
    return [plan for plan in found if not only or plan.kind in only or name_of(plan) in only]


async def run_suite(
    found: Sequence[Plan],
    *,
    abilities: Collection[Ability],
    carry_out: Callable[[Plan], Awaitable[DrillRecord]],
    tell: Callable[[str, DrillRecord | None, str], None] = lambda *_: None,
    result: SuiteResult | None = None,
) -> SuiteResult:
    """Run drills in order. ``tell(name, record, why)``: one is over, or was skipped, and why.

    ``result`` is filled progressively, so that an interrupted suite keeps its results.
    """
    suite = SuiteResult() if result is None else result
    for plan in found:
        name = name_of(plan)
        lacks = lacking(plan, abilities)
        if lacks and plan.kind == "slow" and "loss" in abilities:
            # Loss without delay is better than nothing, and the record shows it.
            plan = replace(plan, settings={**plan.settings, "delay": 0.0, "jitter": 0.0})
        elif lacks:
            suite.skipped[name] = f"back end {plan.backend} has no {' and no '.join(lacks)} here"
            tell(name, None, suite.skipped[name])
            continue
        try:
            record = await carry_out(plan)
        except (GossamerError, OSError, TimeoutError) as error:
            # It failed before it began.
            failure = str(error) or type(error).__name__
            record = DrillRecord(plan=plan, began_at=time.time(), failure=failure)
            record = replace(record, verdicts=judge(record))
        suite.records[name] = record
        tell(name, record, f"without {', '.join(lacks)}" if lacks else "")
    return suite


def suite_json(suite: SuiteResult) -> bytes:
    """Encode the suite as JSON: the verdicts first, then every record."""
    summary = suite.summary()
    data = {
        "kept": summary.kept,
        "words": summary.words,
        "promises": summary.promises,
        "skipped": suite.skipped,
        "drills": suite.records,
    }
    return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
