"""What a drill asks of its back end, known before anything is started; pure."""

from __future__ import annotations

from collections.abc import Collection

from gossamer.drill.record import Plan
from gossamer.drill.run.script import Apply, Clock, script_of
from gossamer.drill.stage.backend import Ability, BackEndError, abilities_for

__all__ = ["check", "lacking", "needs"]


def needs(plan: Plan) -> list[Ability]:
    """What the steps of the drill take, in a fixed order."""
    script = script_of(plan)
    found: dict[Ability, None] = {}
    for step in (*script.split, *script.heal):
        if isinstance(step, Clock):
            found["clock"] = None
        if isinstance(step, Apply):
            found |= dict.fromkeys(abilities_for(step.faults))
    return list(found)


def lacking(plan: Plan, abilities: Collection[Ability]) -> list[Ability]:
    """What the drill takes and the back end does not have."""
    return [ability for ability in needs(plan) if ability not in abilities]


def check(plan: Plan, abilities: Collection[Ability]) -> None:
    """Raises :class:`BackEndError` where the back end cannot do what the drill takes."""
    if lacks := lacking(plan, abilities):
        raise BackEndError(
            backend=plan.backend,
            reason=f"this drill takes {' and '.join(lacks)}, which cannot be had here",
            remedy="load netem (`modprobe sch_netem`), or take --backend gate"
            if "clock" not in lacks
            else "clocks are set by the gate: take --backend gate",
        )
