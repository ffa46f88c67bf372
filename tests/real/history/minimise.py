"""From a run that fails to the smallest one that still does: fewer workloads, then fewer steps of the fault.

A run fails if it breaks a promise of a kind that the first one broke; what that one kept is left out at once.
Real processes do not fail every time, so a smaller run is tried a few times before it is held to be sound.
Steps that belong together (a kill and the start after it) are tried one by one all the same: what no step
undoes is undone in the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .history import Event
from .judge import Violation
from .run import Outcome, Plan, judged, run

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


def reduced(plan: Plan, verdicts: Mapping[str, Sequence[Violation]]) -> Plan:
    """The same with those workloads only that broke a promise."""
    names = tuple(name for name in plan.workloads if verdicts.get(name))
    return replace(plan, workloads=names or plan.workloads)


def minimise(plan: Plan, events: Sequence[Event], keep: Path, minutes: float) -> int:
    """Print the smallest run that breaks what this one broke; its history is below ``keep``.

    ``minutes``: begin no run after so long; 0: as many as it takes.
    """
    verdicts = judged(plan, events)
    wanted = _promises(verdicts)
    if not wanted:
        print("this history broke no promise")
        return 0
    runs, began = 0, time.monotonic()
    last: Outcome | None = None
    kept = keep

    async def fails(candidate: Plan) -> bool:
        nonlocal runs, last, kept
        for _ in range(TRIES):
            if minutes and time.monotonic() - began > minutes * 60:
                return False
            runs += 1
            outcome = await run(candidate, keep / f"run{runs}")
            steps = ", ".join(map(str, candidate.schedule()))
            same = wanted & _promises(outcome.verdicts)
            verdict = f"fails ({', '.join(sorted(same))})" if same else "sound"
            print(f"run{runs}: {verdict}: {', '.join(candidate.workloads)}: {steps}", flush=True)
            if same:
                last, kept = outcome, keep / f"run{runs}"
                return True
        return False

    async def search() -> Plan:
        fewer = reduced(plan, verdicts)
        return await smallest(fewer if fewer != plan and await fails(fewer) else plan, fails)

    plan = asyncio.run(search())
    if last is None:
        print("nothing smaller fails")
        return 0
    steps = ", ".join(map(str, plan.schedule()))
    print(f"smallest: {', '.join(plan.workloads)}: {steps}; history {kept}")
    for name, found in last.verdicts.items():
        for violation in found[:3]:
            print(f"   {name}  {violation}")
    return 1


def _promises(verdicts: Mapping[str, Sequence[Violation]]) -> set[str]:
    return {violation.promise for found in verdicts.values() for violation in found}
