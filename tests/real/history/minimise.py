"""From a run that fails to the smallest one that still does: fewer workloads, then fewer steps of the fault.

Real processes do not fail every time, so a smaller run is tried a few times before it is held to be sound.
Steps that belong together (a kill and the start after it) are tried one by one all the same: what no step
undoes is undone in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from .run import Outcome, Plan, run

__all__ = ["minimise", "smaller", "smallest"]

TRIES = 2
Fails = Callable[[Plan], Awaitable[bool]]


def smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with less in them: one workload of several first, then without one step."""
    if len(plan.workloads) > 1:
        for name in plan.workloads:
            yield replace(plan, workloads=(name,))
        for name in plan.workloads:
            yield replace(plan, workloads=tuple(other for other in plan.workloads if other != name))
    steps = plan.schedule()
    for place in range(len(steps)):
        if len(steps) > 1:
            yield replace(plan, steps=tuple(steps[:place] + steps[place + 1 :]))


async def smallest(plan: Plan, fails: Fails) -> Plan:
    """The end of the road: nothing smaller fails."""
    while True:
        for candidate in smaller(plan):
            if await fails(candidate):
                plan = candidate
                break
        else:
            return plan


def minimise(plan: Plan, keep: Path) -> int:
    """Print the smallest run that fails; its history is below ``keep``."""
    runs = 0
    last: Outcome | None = None
    kept = keep

    async def fails(candidate: Plan) -> bool:
        nonlocal runs, last, kept
        for _ in range(TRIES):
            runs += 1
            outcome = await run(candidate, keep / f"run{runs}")
            steps = ", ".join(map(str, candidate.schedule()))
            verdict = "sound" if outcome.ok else "fails"
            print(f"run{runs}: {verdict}: {', '.join(candidate.workloads)}: {steps}", flush=True)
            if not outcome.ok:
                last, kept = outcome, keep / f"run{runs}"
                return True
        return False

    plan = asyncio.run(smallest(plan, fails))
    if last is None:
        print("nothing smaller fails")
        return 0
    steps = ", ".join(map(str, plan.schedule()))
    print(f"smallest: {', '.join(plan.workloads)}: {steps}; history {kept}")
    for name, found in last.verdicts.items():
        for violation in found[:3]:
            print(f"   {name}  {violation}")
    return 1
