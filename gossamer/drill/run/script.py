"""Script of a drill, a list of steps: pure, so that every kind of drill can be read and tested.

Steps are performed in order. Most drills are a fault, a wait and its end; a rolling restart waits for the
cluster after each node, and the drill that kills a coordinator waits for a heal to begin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gossamer.drill.record import Plan, Side
from gossamer.drill.stage.backend import Ability, BackEndError, LinkFault, abilities_for
from gossamer.errors import WrongValueError
from gossamer.faults import DRILLS, DrillKind, Shape, parse_shape

Action = Literal[
    "apply",  # let just ``faults`` hold, for at most ``seconds``; none: lift them
    "wait",  # let ``seconds`` pass
    "await cluster",  # wait, within bounds, until all nodes are ready and see each other
    "kill",
    "stop",
    "start",  # without ``nodes``: the coordinator that was killed
    "pause",
    "resume",
    "set clock",  # let a node's wall clock be ``seconds`` off
    "fill disk",  # let a node's files grow no more
    "free disk",
    "write conflict",  # the same rows at each of ``nodes``, which do not reach each other
    "kill coordinator",  # wait, within bounds, until a heal has begun, and kill the node that leads it
]
_LATEST = 30.0
"""Seconds beyond its time after which a fault that was not lifted ends by itself."""
DOWN = 3.0
"""Seconds for which a rolling restart, or a coordinator drill, leaves a node down."""


@dataclass(frozen=True, slots=True)
class Step:
    """Step of a drill; the action determines which fields are used."""

    action: Action
    nodes: tuple[str, ...] = ()
    seconds: float = 0.0
    faults: tuple[LinkFault, ...] = ()
    text: str = ""
    """The faults in words."""


_OF_ONE: Mapping[DrillKind, tuple[Action, Action]] = {
    "kill": ("kill", "start"),
    "pause": ("pause", "resume"),
    "clock": ("set clock", "set clock"),
    "disk": ("fill disk", "free disk"),
}
"""Action on one node per kind of drill, and the action that ends it."""
LIFT = Step("apply")
WHOLE = Step("await cluster")


def wait(seconds: float) -> Step:
    """Return a step that waits."""
    return Step("wait", seconds=seconds)


@dataclass(frozen=True, slots=True)
class Script:
    """Steps of a drill: ``split`` while the fault is active, ``heal`` once it has ended."""

    split: tuple[Step, ...]
    heal: tuple[Step, ...]
    sides: tuple[Side, ...]
    parted: frozenset[tuple[str, str]]
    """Pairs of names, both ways, that the fault separates; a node that is down is parted from itself."""

    @property
    def needs(self) -> list[Ability]:
        """Abilities that the back end needs, in a fixed order."""
        steps = (*self.split, *self.heal)
        clock: list[Ability] = ["clock"] if any(step.action == "set clock" for step in steps) else []
        return list(dict.fromkeys(clock + [one for step in steps for one in abilities_for(step.faults)]))


def lacking(plan: Plan, abilities: Collection[Ability]) -> list[Ability]:
    """Return the abilities that the drill needs and the back end lacks."""
    return [ability for ability in script_of(plan).needs if ability not in abilities]


def check(plan: Plan, abilities: Collection[Ability]) -> None:
    """Raise :class:`BackEndError` if the back end lacks an ability that the drill needs."""
    if lacks := lacking(plan, abilities):
        raise BackEndError(
            backend=plan.backend,
            reason=f"this drill takes {' and '.join(lacks)}, which cannot be had here",
            remedy="load netem (`modprobe sch_netem`), or take --backend gate"
            if "clock" not in lacks
            else "clocks are set by the gate: take --backend gate",
        )


def script_of(plan: Plan) -> Script:
    """Build the steps of a drill.

    Raises:
        ShapeError, WrongValueError: the plan's shape does not fit its nodes.
    """
    match DRILLS[plan.kind].at:
        case "split":
            return _between(plan, parse_shape(plan.shape, len(plan.nodes)))
        case "node":
            return _of_one(plan)
        case "all":
            return _rolling(plan)


def _between(plan: Plan, shape: Shape) -> Script:
    names = plan.nodes
    pairs = [(names[a - 1], names[b - 1]) for a, b in sorted(shape.cuts)]
    parted = frozenset(pairs) | {(b, a) for a, b in pairs}
    latest = plan.seconds + _LATEST
    cut = tuple(LinkFault(a, b, cut=True) for a, b in pairs)
    applied = Step("apply", seconds=latest, faults=cut, text=f"cut {shape.text}")
    split: tuple[Step, ...] = (applied, wait(plan.seconds))
    heal: tuple[Step, ...] = (LIFT,)
    if plan.kind in ("partition", "coordinator") and "/" in shape.text:
        # Late enough for both sides to have seen the split, and early enough to be old when it ends.
        early = round(plan.seconds * 0.6, 3)
        first = tuple(names[side[0] - 1] for side in shape.sides)
        split = (applied, wait(early), Step("write conflict", first), wait(plan.seconds - early))
    if plan.kind == "flapping":
        split = _flaps(plan, applied)
    elif plan.kind == "coordinator":
        heal = (LIFT, Step("kill coordinator"), wait(DOWN), Step("start"), WHOLE)
    elif plan.kind == "slow":
        delay, jitter, loss = (float(plan.settings.get(key, 0.0)) for key in ("delay", "jitter", "loss"))
        slow = tuple(LinkFault(a, b, delay=delay, jitter=jitter, loss=loss) for a, b in pairs)
        text = f"slow {shape.text}: delay {delay:g} s ± {jitter:g}, loss {loss:.0%}"
        split = (Step("apply", seconds=latest, faults=slow, text=text), wait(plan.seconds))
        # A slow link separates nothing: all messages are still owed.
        parted = frozenset()
    return Script(split, heal, _sides(names, shape.sides), parted)


def _flaps(plan: Plan, applied: Step) -> tuple[Step, ...]:
    period = float((DRILLS["flapping"].defaults | plan.settings)["period"])
    steps: list[Step] = []
    left = plan.seconds
    while left > 0:
        steps += (LIFT if steps and steps[-2] is applied else applied, wait(min(period, left)))
        left -= period
    return tuple(steps)


def _rolling(plan: Plan) -> Script:
    steps: list[Step] = []
    for name in plan.nodes:
        steps += (Step("stop", (name,)), wait(DOWN), Step("start", (name,)), WHOLE)
    everybody = frozenset((a, b) for a in plan.nodes for b in plan.nodes)
    alone = tuple((number,) for number in range(1, len(plan.nodes) + 1))
    return Script(tuple(steps), (), _sides(plan.nodes, alone), everybody)


def _of_one(plan: Plan) -> Script:
    names = plan.nodes
    if not plan.shape.isdecimal() or not 1 <= int(plan.shape) <= len(names):
        raise WrongValueError(f"--node: got {plan.shape!r}, expected a number from 1 to {len(names)}")
    number = int(plan.shape)
    one = (names[number - 1],)
    begin, end = _OF_ONE[plan.kind]
    jump = float((DRILLS[plan.kind].defaults | plan.settings).get("jump", 0.0))
    heal = (Step(end, one), WHOLE) if plan.kind == "kill" else (Step(end, one),)
    others = [other for other in range(1, len(names) + 1) if other != number]
    # A node with a clock jump, or a full disc, is still owed every message.
    gone = names if plan.kind in ("kill", "pause") else ()
    parted = frozenset(pair for other in gone for pair in ((*one, other), (other, *one)))
    sides = sorted([[number], others])
    return Script((Step(begin, one, jump), wait(plan.seconds)), heal, _sides(names, sides), parted)


def _sides(names: Sequence[str], sides: Sequence[Sequence[int]]) -> tuple[Side, ...]:
    return tuple(
        Side(",".join(map(str, side)), tuple(names[number - 1] for number in side)) for side in sides
    )
