"""Drills as they are ordered over HTTP: which there are, what each takes, and the plan that it makes; pure.

Rules: 1. What an order leaves out is the default of its kind; what its kind does not take is a mistake.
2. The bounds are those of a machine that has other work: the command (``gossamer drill``) takes more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from pydantic import Field

from gossamer.api.model.base import Value
from gossamer.errors import WrongValueError
from gossamer.faults import parse_shape

__all__ = [
    "KINDS",
    "DrillKind",
    "DrillKindInfo",
    "DrillRequest",
    "ParameterInfo",
    "plan_of",
]

DrillKind = Literal[
    "partition", "flapping", "slow", "kill", "pause", "rolling", "clock", "coordinator", "disk"
]
On = Literal["own-cluster", "this-cluster"]
MOST_NODES = 9


class DrillRequest(Value):
    """A drill to carry out. Times in seconds."""

    kind: DrillKind
    on: On = "own-cluster"
    """own-cluster: one that is started for it and gone after it. this-cluster: the one that answers, by the
    gates of its nodes; for administrators, and partitions only."""
    nodes: Annotated[int, Field(ge=2, le=MOST_NODES, strict=True)] = 3
    """How many, of an own cluster."""
    seconds: Annotated[float, Field(ge=1, le=600)] = 10.0
    """How long the fault holds."""
    load: Annotated[float, Field(ge=0, le=2000)] = 100.0
    """Messages a second, in all, of an own cluster."""
    warm_up: Annotated[float, Field(ge=0, le=60)] = 3.0
    after: Annotated[float, Field(ge=0, le=60)] = 3.0
    seed: Annotated[int, Field(ge=0, lt=2**31, strict=True)] = 0
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


class ParameterInfo(Value):
    """One key of an order, for those who fill it in."""

    name: str
    says: str
    kind: Literal["number", "whole", "text"]
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


_SPLIT = ParameterInfo(
    name="split", says="Sides 2/1, 1/1/1; one way 1>2; one link 1-2; empty: two halves", kind="text"
)
_NODE = ParameterInfo(
    name="node", says="Its number; empty: the last one", kind="whole", least=1, most=MOST_NODES
)


def _seconds(name: str, says: str, default: float | None, least: float, most: float) -> ParameterInfo:
    return ParameterInfo(
        name=name, says=says, kind="number", default=default, unit="s", least=least, most=most
    )


COMMON = (
    ParameterInfo(name="nodes", says="How many", kind="whole", default=3, least=2, most=MOST_NODES),
    _seconds("seconds", "The fault holds for", 10.0, 1, 600),
    ParameterInfo(
        name="load", says="Messages in all", kind="number", default=100.0, unit="/s", least=0, most=2000
    ),
    _seconds("warm_up", "Load before the fault", 3.0, 0, 60),
    _seconds("after", "Load after the heal", 3.0, 0, 60),
    _seconds("autoheal", "Nodes heal after; empty: as they come", None, 1, 600),
    ParameterInfo(
        name="seed", says="Decides the order of messages", kind="whole", default=0, least=0, most=2**31 - 1
    ),
)

_OWN: Mapping[DrillKind, tuple[str, tuple[ParameterInfo, ...]]] = {
    "partition": ("Cut the network into sides, one way, or at one link, and let it heal.", (_SPLIT,)),
    "flapping": (
        "Cut and mend the network again and again.",
        (_SPLIT, _seconds("period", "Each cut lasts, and each pause", 4.0, 1, 60)),
    ),
    "slow": (
        "Make the network between sides slow and lossy.",
        (
            _SPLIT,
            _seconds("delay", "Everything is later by", 0.2, 0, 10),
            _seconds("jitter", "And by at most so much more", 0.05, 0, 10),
            ParameterInfo(name="loss", says="Share lost", kind="number", default=0.05, least=0, most=1),
        ),
    ),
    "kill": ("Kill a node (SIGKILL), and start it again.", (_NODE,)),
    "pause": ("Stop a node's process (SIGSTOP), and let it go on.", (_NODE,)),
    "rolling": ("Restart all nodes in order, one after the other.", ()),
    "clock": (
        "Let a node's wall clock jump, and jump back.",
        (_NODE, _seconds("jump", "By how much", 3600.0, -1e8, 1e8)),
    ),
    "coordinator": ("Cut the network, and kill the node that heals it while it does.", (_SPLIT,)),
    "disk": ("Let a node's files grow no more, as on a full disc.", (_NODE,)),
}
HERE: frozenset[DrillKind] = frozenset({"partition"})
"""What the gates of a running cluster can do without a process being ended."""

KINDS = tuple(
    DrillKindInfo(
        kind=kind,
        says=_OWN[kind][0],
        parameters=_OWN[kind][1],
        on=("own-cluster", "this-cluster") if kind in HERE else ("own-cluster",),
    )
    for kind in get_args(DrillKind)
)
_EVERY_OWN = {parameter.name for _, parameters in _OWN.values() for parameter in parameters}


def plan_of(order: DrillRequest) -> dict[str, Any]:
    """The plan of a drill on a cluster of its own, as ``gossamer drill`` has it.

    Raises:
        WrongValueError: it gives what its kind does not take, or a node that there is not.
        ShapeError: the split is none, or none for so many nodes.
    """
    taken = {parameter.name: parameter.default for parameter in _OWN[order.kind][1]}
    given = order.model_dump(include=_EVERY_OWN, exclude_none=True)
    for name, got in given.items():
        if name not in taken:
            expected = f"nothing for the drill {order.kind}, which takes {', '.join(taken) or 'no such key'}"
            raise WrongValueError.about(name, repr(got), expected)
    values = {**taken, **given}
    nodes = order.nodes
    shape = ""
    if "split" in taken:
        shape = parse_shape(order.split or f"{nodes - nodes // 2}/{nodes // 2}", nodes).text
    elif "node" in taken:
        number = order.node or nodes
        if number > nodes:
            raise WrongValueError.about("node", str(number), f"a node from 1 to {nodes}")
        shape = str(number)
    settings: dict[str, Any] = {
        name: value for name, value in values.items() if name not in ("split", "node")
    }
    if order.autoheal is not None:
        settings["GOSSAMER_CLUSTER__AUTOHEAL"] = f"{order.autoheal:g}s"
    return {
        "kind": order.kind,
        "shape": shape,
        "nodes": [f"node{number}" for number in range(1, nodes + 1)],
        "backend": "gate",
        "seconds": order.seconds,
        "load": order.load,
        "seed": order.seed,
        "warm_up": order.warm_up,
        "after": order.after,
        "settings": settings,
    }


def check_here(order: DrillRequest) -> None:
    """See that this cluster can carry it out.

    Raises:
        WrongValueError: it is of a kind, or has keys, for clusters of their own only.
    """
    if order.kind not in HERE:
        raise WrongValueError.about("kind", repr(order.kind), f"{', '.join(sorted(HERE))} on this-cluster")
    for name in sorted(order.model_fields_set - {"kind", "on", "seconds", "split"}):
        expected = "no such key on this-cluster, which has its own nodes, load and settings"
        raise WrongValueError.about(name, repr(getattr(order, name)), expected)


def plan_json(order: DrillRequest) -> bytes:
    """See :func:`plan_of`."""
    return msgspec.json.encode(plan_of(order))
