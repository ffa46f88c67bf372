"""What a drill does, step by step: pure, so that every kind of drill can be read and tested as a list.

Steps are carried out in order. Most drills are a fault, a wait and its end; a rolling restart waits for the
cluster after each node, and the one that kills a coordinator waits for a heal to begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gossamer.drill.record import Plan, Side
from gossamer.drill.stage.backend import LinkFault
from gossamer.errors import WrongValueError
from gossamer.faults import Shape, parse_shape, sides_of

__all__ = [
    "Apply",
    "Await",
    "Clock",
    "Conflict",
    "Disk",
    "End",
    "KillCoordinator",
    "Lift",
    "NodeError",
    "Pause",
    "Resume",
    "Script",
    "Start",
    "Step",
    "Wait",
    "script_of",
]


class NodeError(WrongValueError):
    """A drill of one node, and no such node."""

    def __init__(self, *, got: str, nodes: int) -> None:
        self.got = got
        super().__init__(f"--node: got {got!r}, expected a number from 1 to {nodes}")


@dataclass(frozen=True, slots=True)
class Apply:
    """Let just these faults hold, for at most ``seconds``."""

    faults: tuple[LinkFault, ...]
    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Lift:
    """Let no fault hold."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Await:
    """Wait, within bounds, until all nodes are ready and see each other."""


@dataclass(frozen=True, slots=True)
class End:
    """End a node's process: by SIGKILL, or in order."""

    node: str
    kill: bool


@dataclass(frozen=True, slots=True)
class Start:
    """Start a node that ended; with "" the coordinator that was killed."""

    node: str


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP."""

    node: str


@dataclass(frozen=True, slots=True)
class Resume:
    """SIGCONT."""

    node: str


@dataclass(frozen=True, slots=True)
class Clock:
    """Let a node's wall clock be ``offset`` seconds off."""

    node: str
    offset: float


@dataclass(frozen=True, slots=True)
class Disk:
    """Let a node's files grow no more, or let them again."""

    node: str
    full: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """Write the same rows at each of these nodes, which are on sides that do not reach each other."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KillCoordinator:
    """Wait, within bounds, until a heal has begun, and kill the node that coordinates it."""


Step = Apply | Lift | Wait | Await | End | Start | Pause | Resume | Clock | Disk | Conflict | KillCoordinator


@dataclass(frozen=True, slots=True)
class Script:
    """``split`` is carried out while the fault holds; ``heal`` once it has ended."""

    split: tuple[Step, ...]
    heal: tuple[Step, ...]
    sides: tuple[Side, ...]
    parted: frozenset[tuple[str, str]]
    """Pairs of names, both ways, that the fault stands between; a node that is down is parted from itself."""


_LATEST = 30.0
"""Seconds after which a fault that nobody lifted ends by itself, beyond its time."""
DOWN = 3.0
"""Seconds for which a rolling restart, or a coordinator, leaves a node down."""


def script_of(plan: Plan) -> Script:
    """The steps of a drill.

    Raises:
        ShapeError, NodeError: the plan's shape does not fit its nodes.
    """
    match plan.kind:
        case "partition" | "flapping" | "slow" | "coordinator":
            return _between(plan, _shape(plan))
        case "rolling":
            return _rolling(plan)
        case _:
            return _of_one(plan, _node(plan))


def _shape(plan: Plan) -> Shape:
    return parse_shape(plan.shape, len(plan.nodes))


def _node(plan: Plan) -> str:
    if not plan.shape.isdecimal() or not 1 <= int(plan.shape) <= len(plan.nodes):
        raise NodeError(got=plan.shape, nodes=len(plan.nodes))
    return plan.nodes[int(plan.shape) - 1]


def _between(plan: Plan, shape: Shape) -> Script:
    names = plan.nodes
    pairs = [(names[a - 1], names[b - 1]) for a, b in sorted(shape.cuts)]
    parted = frozenset(pairs) | {(b, a) for a, b in pairs}
    cut = tuple(LinkFault(a, b, cut=True) for a, b in pairs)
    applied = Apply(cut, plan.seconds + _LATEST, f"cut {shape.text}")
    split: tuple[Step, ...] = (applied, Wait(plan.seconds))
    heal: tuple[Step, ...] = (Lift(),)
    if plan.kind in ("partition", "coordinator") and "/" in shape.text:
        # Late enough for both sides to have seen the split, and early enough to be old when it ends.
        early = round(plan.seconds * 0.6, 3)
        first = tuple(names[side[0] - 1] for side in shape.sides)
        split = (applied, Wait(early), Conflict(first), Wait(plan.seconds - early))
    if plan.kind == "flapping":
        split = _flaps(plan, applied)
    elif plan.kind == "coordinator":
        heal = (Lift(), KillCoordinator(), Wait(DOWN), Start(""), Await())
    elif plan.kind == "slow":
        delay, jitter, loss = (float(plan.settings.get(key, 0.0)) for key in ("delay", "jitter", "loss"))
        slow = tuple(LinkFault(a, b, delay=delay, jitter=jitter, loss=loss) for a, b in pairs)
        text = f"slow {shape.text}: delay {delay:g} s ± {jitter:g}, loss {loss:.0%}"
        split = (Apply(slow, plan.seconds + _LATEST, text), Wait(plan.seconds))
        # Slow is not parted: all messages are owed in time to come.
        parted = frozenset()
    return Script(split, heal, _sides(names, shape.sides), parted)


def _flaps(plan: Plan, applied: Apply) -> tuple[Step, ...]:
    period = float(plan.settings.get("period", 4.0))
    steps: list[Step] = []
    left = plan.seconds
    while left > 0:
        steps += (applied, Wait(min(period, left)))
        left -= period
        if left > 0:
            steps += (Lift(), Wait(min(period, left)))
            left -= period
    return tuple(steps)


def _rolling(plan: Plan) -> Script:
    steps: list[Step] = []
    for name in plan.nodes:
        steps += (End(name, kill=False), Wait(DOWN), Start(name), Await())
    everybody = frozenset((a, b) for a in plan.nodes for b in plan.nodes)
    alone = tuple((number,) for number in range(1, len(plan.nodes) + 1))
    return Script(tuple(steps), (), _sides(plan.nodes, alone), everybody)


def _of_one(plan: Plan, name: str) -> Script:
    begin: Step
    end: tuple[Step, ...]
    match plan.kind:
        case "kill":
            begin, end = End(name, kill=True), (Start(name), Await())
        case "pause":
            begin, end = Pause(name), (Resume(name),)
        case "clock":
            begin, end = Clock(name, float(plan.settings.get("jump", 3600.0))), (Clock(name, 0.0),)
        case _:
            begin, end = Disk(name, full=True), (Disk(name, full=False),)
    number = plan.nodes.index(name) + 1
    cuts = frozenset(
        cut
        for other in range(1, len(plan.nodes) + 1)
        if other != number
        for cut in ((number, other), (other, number))
    )
    # Whose clock jumps, or whose disc is full, is still owed every message.
    gone = plan.kind in ("kill", "pause")
    parted = frozenset(pair for other in plan.nodes for pair in ((name, other), (other, name)) if gone)
    return Script(
        (begin, Wait(plan.seconds)), end, _sides(plan.nodes, sides_of(len(plan.nodes), cuts)), parted
    )


def _sides(names: Sequence[str], sides: Sequence[Sequence[int]]) -> tuple[Side, ...]:
    return tuple(
        Side(",".join(map(str, side)), tuple(names[number - 1] for number in side)) for side in sides
    )
