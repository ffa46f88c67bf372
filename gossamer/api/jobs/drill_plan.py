"""Drills over HTTP: which there are, what each takes, the plan of an order, and what came of it; pure.

Rules: 1. What an order leaves out is the default of its kind; what its kind does not take is a mistake.
2. The bounds are those of a machine that has other work: the command (``gossamer drill``) takes more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from gossamer.api.model.base import Value
from gossamer.errors import WrongValueError, mismatch
from gossamer.faults import DRILLS, DrillKind, Shape, parse_shape

On = Literal["own-cluster", "this-cluster"]
MOST_NODES = 9


class DrillRequest(Value):
    """A drill to carry out. Times in seconds."""

    kind: DrillKind
    on: On = "own-cluster"
    """own-cluster: one that is started for it and gone after it. this-cluster: the one that answers, by the
    gates of its nodes; for administrators, and partitions only."""
    nodes: Annotated[int, Field(ge=2, le=MOST_NODES, strict=True)] = 3
    """Number of nodes, of an own cluster."""
    seconds: Annotated[float, Field(ge=1, le=600)] = 10.0
    """Duration of the fault."""
    load: Annotated[float, Field(ge=0, le=2000)] = 100.0
    """Messages a second, in all, of an own cluster."""
    warm_up: Annotated[float, Field(ge=0, le=60)] = 3.0
    after: Annotated[float, Field(ge=0, le=60)] = 3.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] = 0
    autoheal: Annotated[float, Field(ge=1, le=600)] | None = None
    """After how long the nodes of an own cluster heal; null: as they come."""
    split: Annotated[str, Field(max_length=60)] | None = None
    """Sides 2/1, 1/1/1; one way 1>2; one link 1-2. Unless given, two halves."""
    node: Annotated[int, Field(ge=1, le=MOST_NODES, strict=True)] | None = None
    """Its number; unless given, the last one."""
    period: Annotated[float, Field(ge=1, le=60)] | None = None
    delay: Annotated[float, Field(ge=0, le=10)] | None = None
    jitter: Annotated[float, Field(ge=0, le=10)] | None = None
    loss: Annotated[float, Field(ge=0, le=1)] | None = None
    jump: Annotated[float, Field(ge=-1e8, le=1e8)] | None = None


Word = Literal["number", "whole", "text"]
_WORDS: Mapping[str, Word] = {"number": "number", "integer": "whole", "string": "text"}


class ParameterInfo(Value):
    """One key of an order, for those who fill it in."""

    name: str
    says: str
    kind: Word
    default: float | int | str | None = None
    """null: chosen by what else is ordered."""
    unit: str = ""
    least: float | None = None
    most: float | None = None


class DrillKindInfo(Value):
    """A drill that can be ordered."""

    kind: DrillKind
    says: str
    parameters: tuple[ParameterInfo, ...]
    """Those of this kind; ``common`` are those of all."""
    on: tuple[On, ...] = ("own-cluster",)


class _Written(Value):
    """The base of what a drill writes; keys of later versions are left out."""

    model_config = ConfigDict(extra="ignore")


class DrillVerdict(_Written):
    """A promise, and whether it was kept; null: this drill does not put it to the test."""

    promise: str
    kept: bool | None
    expected: str = ""
    got: str = ""


class DrillPhase(_Written):
    """A stretch of a drill, in its own seconds."""

    name: str
    begin: float
    end: float


class DrillSide(_Written):
    """Nodes that no fault of the drill parts from each other."""

    name: str
    nodes: tuple[str, ...]


class DrillMark(_Written):
    """Something that happened at a node, or that the drill did."""

    at: float
    node: str
    kind: str
    peer: str = ""
    detail: str = ""


class DrillProgress(_Written):
    """The progress of a drill."""

    step: str
    """starting, connecting, warm-up, split, heal, after, draining, closing, done."""
    at: float
    """Seconds since its load began."""
    phases: tuple[DrillPhase, ...] = ()
    sides: tuple[DrillSide, ...] = ()
    marks: tuple[DrillMark, ...] = ()
    """The latest."""
    sees: Mapping[str, Mapping[str, Literal["up", "suspect", "down"]]] = {}
    sent: int = 0
    delivered: int = 0
    owed: int = 0
    """Acknowledged and not delivered yet."""
    dropped: int = 0
    """Clients whose connection ended, and not by the drill."""


class DrillResult(_Written):
    """The result of a drill."""

    words: str = ""
    """The verdict as a sentence."""
    happened: str = ""
    verdicts: tuple[DrillVerdict, ...] = ()
    figures: tuple[tuple[str, str, str], ...] = ()
    """Name, value, remark."""


_SCHEMAS: Mapping[str, Mapping[str, Any]] = DrillRequest.model_json_schema()["properties"]


def _parameter(name: str, says: str, default: float | None = None, unit: str = "") -> ParameterInfo:
    """``name`` with the bounds that an order has; ``default`` is that of a kind."""
    schema = _SCHEMAS[name]
    taken = schema.get("anyOf", [schema])[0]
    return ParameterInfo(
        name=name,
        says=says,
        kind=_WORDS[taken["type"]],
        default=schema["default"] if default is None else default,
        unit=unit,
        least=taken.get("minimum"),
        most=taken.get("maximum"),
    )


_PLACES = {
    "split": (_parameter("split", "Sides 2/1, 1/1/1; one way 1>2; one link 1-2; empty: two halves"),),
    "node": (_parameter("node", "Its number; empty: the last one"),),
    "all": (),
}
COMMON = (
    _parameter("nodes", "How many"),
    _parameter("seconds", "The fault holds for", unit="s"),
    _parameter("load", "Messages in all", unit="/s"),
    _parameter("warm_up", "Load before the fault", unit="s"),
    _parameter("after", "Load after the heal", unit="s"),
    _parameter("autoheal", "Nodes heal after; empty: as they come", unit="s"),
    _parameter("seed", "Decides the order of messages"),
)
HERE: frozenset[DrillKind] = frozenset({"partition"})
"""The drills that the gates of a running cluster can carry out without ending a process."""

KINDS = tuple(
    DrillKindInfo(
        kind=kind,
        says=drill.says,
        parameters=(
            *_PLACES[drill.at],
            *(
                _parameter(one.name, one.says, one.default, "" if one.unit == "share" else "s")
                for one in drill.settings
            ),
        ),
        on=("own-cluster", "this-cluster") if kind in HERE else ("own-cluster",),
    )
    for kind, drill in DRILLS.items()
)
_OWN = {info.kind: {parameter.name: parameter.default for parameter in info.parameters} for info in KINDS}
_EVERY_OWN = {name for parameters in _OWN.values() for name in parameters}


def plan_of(order: DrillRequest) -> dict[str, object]:
    """The plan of a drill on a cluster of its own, as ``gossamer drill`` has it.

    Raises:
        WrongValueError: it gives what its kind does not take, or a node that there is not.
        ShapeError: the split is none of so many nodes.
    """
    settings: dict[str, object] = {**_OWN[order.kind]}
    for name, got in order.model_dump(include=_EVERY_OWN, exclude_none=True).items():
        if name not in settings:
            taken = ", ".join(settings) or "no such key"
            raise mismatch(
                WrongValueError, name, repr(got), f"nothing for the drill {order.kind}, which takes {taken}"
            )
        settings[name] = got
    least = DRILLS[order.kind].least
    if order.nodes < least:
        raise mismatch(WrongValueError, "nodes", str(order.nodes), f"{least} or more for {order.kind}")
    names = [f"node{number}" for number in range(1, order.nodes + 1)]
    shape = ""
    if "split" in settings:
        shape = shape_of(order, order.nodes).text
    elif "node" in settings:
        number = order.node or order.nodes
        if number > order.nodes:
            raise mismatch(WrongValueError, "node", str(number), f"a node from 1 to {order.nodes}")
        shape = str(number)
    for name in ("split", "node"):
        settings.pop(name, None)
    if order.autoheal is not None:
        settings["GOSSAMER_CLUSTER__AUTOHEAL"] = f"{order.autoheal:g}s"
    same = order.model_dump(include={"kind", "seconds", "load", "seed", "warm_up", "after"})
    return {**same, "shape": shape, "nodes": names, "backend": "gate", "settings": settings}


def shape_of(order: DrillRequest, nodes: int) -> Shape:
    """The split of ``nodes``, two halves unless another is ordered. Raises ShapeError if it is none."""
    return parse_shape(order.split or f"{nodes - nodes // 2}/{nodes // 2}", nodes)


def check_here(order: DrillRequest) -> None:
    """See that this cluster can carry it out.

    Raises:
        WrongValueError: it is of a kind, or has keys, for clusters of their own only.
    """
    if order.kind not in HERE:
        raise mismatch(
            WrongValueError, "kind", repr(order.kind), f"{', '.join(sorted(HERE))} on this-cluster"
        )
    for name in sorted(order.model_fields_set - {"kind", "on", "seconds", "split"}):
        expected = "no such key on this-cluster, which has its own nodes, load and settings"
        raise mismatch(WrongValueError, name, repr(getattr(order, name)), expected)
