"""Script of a drill, a list of steps: pure, so that every kind of drill can be read and tested.

Steps are performed in order. Most drills are a fault, a wait and its end; a rolling restart waits for the
cluster after each node, and the drill that kills a coordinator waits for a heal to begin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
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
    "await copies",  # wait, within bounds, until all sessions are copied, by whole replicas
    "leave",  # let clients with persistent sessions leave the first of ``nodes``; the others go to the second
    "arrive",  # let those that left come to the second
    "go home",  # let all clients of a node come back to it
    "await alarms",  # let ``seconds`` pass, and note what alarms the node has meanwhile
    "slow disc",  # let each write of a node take ``seconds`` longer; 0: no more
    "flip bit",  # damage a node's log of replicas, while it is down
    "read log",  # note what a node's log says of damage
]
_LATEST = 30.0
"""Seconds beyond its time after which a fault that was not lifted ends by itself."""
DOWN = 3.0
"""Seconds for which a rolling restart, or a coordinator drill, leaves a node down."""
AWAY = 3.0
"""Seconds for which messages gather for clients that are away before the node of their sessions is killed."""


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
    "kill-owner": ("kill", "start"),
    "kill-quorum": ("kill", "start"),
    "slow-disc": ("slow disc", "slow disc"),
    "disc-fault": ("kill", "start"),
}
"""Action on one node per kind of drill, and the action that ends it."""
_OF_NODES: Mapping[Action, Ability] = {"set clock": "clock", "slow disc": "slow disc"}
"""What nodes do to themselves, and the ability that it takes."""
LIFT = Step("apply")
WHOLE = Step("await cluster")
COPIED = Step("await copies")


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
    before: tuple[Step, ...] = ()
    """What the load waits for."""

    @property
    def needs(self) -> list[Ability]:
        """Abilities that the back end needs, in a fixed order."""
        steps = (*self.split, *self.heal)
        actions = {step.action for step in steps}
        own: list[Ability] = [ability for action, ability in _OF_NODES.items() if action in actions]
        return list(dict.fromkeys(own + [one for step in steps for one in abilities_for(step.faults)]))


def lacking(plan: Plan, abilities: Collection[Ability]) -> list[Ability]:
    """Return the abilities that the drill needs and the back end lacks."""
    return [ability for ability in script_of(plan).needs if ability not in abilities]


def check(plan: Plan, abilities: Collection[Ability]) -> None:
    """Raise :class:`BackEndError` if the back end lacks an ability that the drill needs."""
    if lacks := lacking(plan, abilities):
        raise BackEndError(
            backend=plan.backend,
            reason=f"this drill takes {' and '.join(lacks)}, which cannot be had here",
            remedy="it is done by the gate: take --backend gate"
            if {*lacks} & {*_OF_NODES.values()}
            else "load netem (`modprobe sch_netem`), or take --backend gate",
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
    names, drill = plan.nodes, DRILLS[plan.kind]
    if len(names) < drill.least:
        raise WrongValueError(f"--nodes: got {len(names)}, expected {drill.least} or more for {plan.kind}")
    if not plan.shape.isdecimal() or not 1 <= int(plan.shape) <= len(names):
        raise WrongValueError(f"--node: got {plan.shape!r}, expected a number from 1 to {len(names)}")
    number = int(plan.shape)
    one = (names[number - 1],)
    begin, end = _OF_ONE[plan.kind]
    values = drill.defaults | plan.settings
    amount = float(values.get("jump", values.get("delay", 0.0)))
    split: tuple[Step, ...] = (Step(begin, one, amount), wait(plan.seconds))
    heal: tuple[Step, ...] = (Step(end, one),)
    others = [other for other in range(1, len(names) + 1) if other != number]
    # A node with a clock jump, or a full or slow disc, is still owed every message.
    gone = {*one} if end in ("start", "resume") else set[str]()
    match plan.kind:
        case "kill":
            heal = (*heal, WHOLE)
        case "kill-owner":
            next_one = (*one, names[number % len(names)])
            split = (Step("leave", next_one), wait(AWAY), split[0], Step("arrive", next_one), split[1])
            heal = (*heal, WHOLE, COPIED, Step("go home", one))
        case "kill-quorum":
            gone = {*names} - gone
            killed = [(name,) for name in names if name in gone]
            split = (*(Step(begin, name) for name in killed), Step("await alarms", one, plan.seconds))
            heal = (*(Step(end, name) for name in killed), WHOLE, COPIED)
        case "disc-fault":
            split = (split[0], Step("flip bit", one), split[1])
            heal = (*heal, WHOLE, COPIED, Step("read log", one))
    parted = frozenset(pair for pair in product(names, names) if gone & {*pair})
    sides = _sides(names, sorted([[number], others]))
    return Script(split, heal, sides, parted, (COPIED,) if drill.copied else ())


def _sides(names: Sequence[str], sides: Sequence[Sequence[int]]) -> tuple[Side, ...]:
    return tuple(
        Side(",".join(map(str, side)), tuple(names[number - 1] for number in side)) for side in sides
    )
