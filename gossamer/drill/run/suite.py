"""All drills, one after the other: which there are, which are run, and what they came to.

Rules: 1. A drill that the back end cannot do is not run, and said so; of what it can do in part, that part is
run.  2. A drill that does not come to its end breaks the suite, and the next one is run all the same.  3. The
suite knows neither back ends nor screens: ``carry_out`` is passed in.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from gossamer.drill.record import BackEndName, DrillKind, DrillRecord, Plan, Setting
from gossamer.drill.report.promises import judge
from gossamer.drill.report.summary import Summary, summarise
from gossamer.drill.report.words import name_of
from gossamer.drill.run.abilities import lacking
from gossamer.drill.stage.backend import Ability
from gossamer.errors import GossamerError, WrongValueError

__all__ = ["SuiteResult", "UnknownDrillError", "choose_plans", "run_suite", "suite_json", "suite_plans"]

QUICK: dict[str, Setting] = {"GOSSAMER_CLUSTER__AUTOHEAL": "3s"}
_SLOW: dict[str, Setting] = {"delay": 0.2, "jitter": 0.05, "loss": 0.05}


class UnknownDrillError(WrongValueError):
    """A drill that the suite does not have."""

    def __init__(self, *, got: str, known: Collection[str]) -> None:
        self.got = got
        super().__init__(f"--only: got {got!r}, expected some of {', '.join(known)}")


@dataclass(slots=True)
class SuiteResult:
    """What was run, by name, and why others were not."""

    records: dict[str, DrillRecord] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def summary(self) -> Summary:
        """What it came to."""
        return summarise(self.records, self.skipped)


def suite_plans(
    *,
    backend: BackEndName,
    quick: bool = False,
    load: float | None = None,
    seed: int = 0,
    hold: float | None = None,
) -> list[Plan]:
    """Every drill of the suite, in the order in which they are run; ``hold``: how long each fault does."""
    count, seconds, aside = (3, 10.0, 2.0) if quick else (5, 20.0, 5.0)
    rate = load if load is not None else 200.0 if quick else 500.0

    def plan(
        kind: DrillKind, shape: str, settings: Mapping[str, Setting] | None = None, *, nodes: int = count
    ) -> Plan:
        return Plan(
            kind=kind,
            shape=shape,
            nodes=tuple(f"node{number}" for number in range(1, nodes + 1)),
            backend=backend,
            seconds=seconds if hold is None else hold,
            load=rate,
            seed=seed,
            warm_up=aside,
            after=aside,
            settings={**(settings or {}), **(QUICK if quick else {})},
        )

    last = str(count)
    halves = f"{count - count // 2}/{count // 2}"
    if quick:
        return [
            plan("partition", halves),
            plan("partition", "1/1/1"),
            plan("slow", halves, _SLOW),
            plan("kill", last),
            plan("pause", last),
            plan("coordinator", halves),
        ]
    return [
        plan("partition", halves),
        plan("partition", f"{count - 1}/1"),
        plan("partition", "2/2/1"),
        plan("partition", "2/2", nodes=4),
        plan("partition", "1/1/1", nodes=3),
        plan("partition", "1>2"),
        plan("partition", "1-2"),
        plan("flapping", halves, {"period": 4.0}),
        plan("slow", halves, _SLOW),
        plan("rolling", ""),
        plan("kill", last),
        plan("pause", last),
        plan("clock", last, {"jump": 3600.0}),
        plan("coordinator", halves),
        plan("disk", last),
    ]


def choose_plans(found: Sequence[Plan], only: Sequence[str]) -> list[Plan]:
    """Those whose kind or name is in ``only``, all without any.

    Raises:
        UnknownDrillError: one of them names nothing.
    """
    known = list(dict.fromkeys(word for plan in found for word in (plan.kind, name_of(plan))))
    for word in only:
        if word not in known:
            raise UnknownDrillError(got=word, known=known)
    return [plan for plan in found if not only or plan.kind in only or name_of(plan) in only]


async def run_suite(
    found: Sequence[Plan],
    *,
    abilities: Collection[Ability],
    carry_out: Callable[[Plan], Awaitable[DrillRecord]],
    tell: Callable[[str, DrillRecord | None, str], None] = lambda *_: None,
    result: SuiteResult | None = None,
) -> SuiteResult:
    """Run them in order. ``tell(name, record, why)``: one is over, or was not run, and why.

    ``result`` is filled as it goes, for those who want what there was when it is interrupted.
    """
    suite = SuiteResult() if result is None else result
    for plan in found:
        name = name_of(plan)
        able, lacks = _able(plan, abilities)
        if able is None:
            suite.skipped[name] = f"back end {plan.backend} has no {' and no '.join(lacks)} here"
            tell(name, None, suite.skipped[name])
            continue
        try:
            record = await carry_out(able)
        except (GossamerError, OSError, TimeoutError) as error:
            record = _failed(able, error)
        suite.records[name] = record
        tell(name, record, f"without {', '.join(lacks)}" if lacks else "")
    return suite


def _able(plan: Plan, abilities: Collection[Ability]) -> tuple[Plan | None, list[Ability]]:
    """The plan as far as it can be carried out, None if that is nothing, and what it lacks."""
    lacks = lacking(plan, abilities)
    if not lacks:
        return plan, []
    if plan.kind == "slow" and "loss" in abilities:
        # Lossy is better than nothing, and the record says what it was.
        return replace(plan, settings={**plan.settings, "delay": 0.0, "jitter": 0.0}), lacks
    return None, lacks


def _failed(plan: Plan, error: Exception) -> DrillRecord:
    """The record of a drill that did not even begin."""
    record = DrillRecord(plan=plan, began_at=time.time(), failure=str(error) or type(error).__name__)
    return replace(record, verdicts=judge(record))


def suite_json(suite: SuiteResult) -> bytes:
    """All of it as JSON: the verdicts first, then every record."""
    summary = suite.summary()
    data: dict[str, Any] = {
        "kept": summary.kept,
        "words": summary.words,
        "promises": [
            {"promise": row.promise, "kept": row.kept, "kept_in": row.kept_in, "judged_in": row.judged_in,
             "worst": row.worst, "got": row.got}
            for row in summary.promises
        ],
        "skipped": suite.skipped,
        "drills": suite.records,
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
