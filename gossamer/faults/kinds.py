"""Kinds of drills, as one table: target, settings and texts of each.

The command makes a subcommand of each row, the API a form; ``gossamer.drill.run.script`` decides the steps of
a drill. A split has a shape, typed in a few characters: which nodes do not receive from which.

=========  ==========================================================================
``3/2``    sides of 3 and 2 nodes, in order of their numbers; ``2/2/1``, ``1/1/1``
``1>2``    messages of node 1 do not reach node 2; all others do (asymmetric)
``1-2``    nodes 1 and 2 do not reach each other; all others reach both (partial)
``1,2>3``  lists on both sides of ``>`` and ``-``; several such cuts are joined by ``+``
=========  ==========================================================================

Rules: 1. Pure.  2. Nodes are numbered from 1.  3. A side is a set of nodes that no cut parts and that the
cuts treat alike, so that what may be expected is the same for all messages from one side to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from gossamer.errors import WrongValueError

DrillKind = Literal[
    "partition",
    "flapping",
    "slow",
    "kill",
    "pause",
    "rolling",
    "clock",
    "coordinator",
    "disk",
    "kill-owner",
    "kill-quorum",
    "slow-disc",
    "disc-fault",
]


@dataclass(frozen=True, slots=True)
class DrillSetting:
    """An option that only some kinds have."""

    name: str
    says: str
    default: float
    unit: Literal["s", "±s", "share"] = "s"
    """Seconds, seconds with a sign, or a share from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Drill:
    """Kind of drill."""

    says: str
    name: str
    """In reports, of one with a ``{shape}``."""
    happened: str
    """Description for a report, with {sides}, {shape}, {nodes}, {time}, {jump}, {delay}, {slowness}."""
    at: Literal["split", "node", "all"] = "node"
    """Meaning of its shape: the sides of a split, or one node."""
    settings: tuple[DrillSetting, ...] = ()
    least: int = 2
    """Number of nodes that it takes."""
    copied: bool = False
    """Whether its nodes copy sessions, unless it is ordered otherwise."""

    @property
    def configuration(self) -> dict[str, str]:
        """Environment of its nodes."""
        return {"GOSSAMER_MQTT__SESSIONS__REPLICATION": "auto"} if self.copied else {}

    @property
    def defaults(self) -> dict[str, float]:
        """Defaults of its settings, by name."""
        return {setting.name: setting.default for setting in self.settings}


DRILLS: Mapping[DrillKind, Drill] = {
    "partition": Drill(
        "Cut the network into sides, one way, or at one link, and let it heal.",
        "partition {shape}",
        "{sides} were cut off from each other {time}",
        at="split",
    ),
    "flapping": Drill(
        "Cut and mend the network again and again.",
        "flapping {shape}",
        "{sides} were cut off from each other again and again {time}",
        at="split",
        settings=(DrillSetting("period", "How long each cut lasts, and each pause", 4.0),),
    ),
    "slow": Drill(
        "Make the network between sides slow and lossy.",
        "slow link {shape}",
        "the links between {sides} were slow {time} ({slowness})",
        at="split",
        settings=(
            DrillSetting("delay", "How much later everything is", 0.2),
            DrillSetting("jitter", "At most so much later still", 0.05),
            DrillSetting("loss", "How much is lost", 0.05, "share"),
        ),
    ),
    "kill": Drill(
        "Kill a node (SIGKILL), and start it again.",
        "kill node{shape}",
        "node {shape} was killed, and started again after {seconds:g} s",
    ),
    "pause": Drill(
        "Stop a node's process (SIGSTOP), and let it go on.",
        "pause node{shape}",
        "node {shape} stood still {time}",
    ),
    "rolling": Drill(
        "Restart all nodes in order, one after the other.",
        "rolling restart",
        "{nodes} nodes were restarted one after another",
        at="all",
    ),
    "clock": Drill(
        "Let a node's wall clock jump, and jump back.",
        "clock node{shape}",
        "the clock of node {shape} was {jump:+g} s off {time}",
        settings=(DrillSetting("jump", "How far; negative is back", 3600.0, "±s"),),
    ),
    "coordinator": Drill(
        "Cut the network, and kill the node that heals it while it does.",
        "coordinator {shape}",
        "{sides} were cut off {time}, and the coordinator was killed while it healed",
        at="split",
    ),
    "disk": Drill(
        "Let a node's files grow no more, as on a full disc.",
        "disk node{shape}",
        "the disc of node {shape} was full {time}",
    ),
    "kill-owner": Drill(
        "Kill a node while messages wait there for its clients, which come to another node.",
        "kill owner node{shape}",
        "node {shape}, which had the sessions of clients that were away, was killed; they went on elsewhere, "
        "and came back after {seconds:g} s",
        least=3,
        copied=True,
    ),
    "kill-quorum": Drill(
        "Kill all nodes but one (--node), and start them again.",
        "kill quorum of node{shape}",
        "all nodes but node {shape} were killed, and started again after {seconds:g} s",
        least=3,
        copied=True,
    ),
    "slow-disc": Drill(
        "Let a node's disc be slow.",
        "slow disc node{shape}",
        "each write to the disc of node {shape} took {delay:g} s longer {time}",
        settings=(DrillSetting("delay", "How much longer each write takes", 0.3),),
        least=3,
        copied=True,
    ),
    "disc-fault": Drill(
        "Kill a node, flip a bit in its log of replicas, and start it again.",
        "disc fault node{shape}",
        "node {shape} was killed, a bit of its log of replicas was flipped, and it was started again after "
        "{seconds:g} s",
        least=3,
        copied=True,
    ),
}


Cut = tuple[int, int]
"""Messages of the first node do not reach the second."""


class ShapeError(WrongValueError):
    """No shape, or none for so many nodes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape for a number of nodes."""

    text: str
    nodes: int
    cuts: frozenset[Cut]

    @property
    def sides(self) -> tuple[tuple[int, ...], ...]:
        """See rule 3; in order of their smallest numbers."""
        alike: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
        for node in range(1, self.nodes + 1):
            deaf_to = frozenset(a for a, b in self.cuts if b == node)
            mute_to = frozenset(b for a, b in self.cuts if a == node)
            alike.setdefault((deaf_to, mute_to), []).append(node)
        # Who is alike is not parted: a cut between two of them would set each against itself.
        return tuple(map(tuple, alike.values()))


def parse_shape(text: str, nodes: int) -> Shape:
    """Parse a shape for a cluster of ``nodes``.

    Raises:
        ShapeError: ``text`` is not a shape; the message shows valid ones.
    """
    plain = "".join(text.split())
    halves = f"{nodes - nodes // 2}/{nodes // 2}"
    wanted, cuts = "", frozenset[Cut]()
    if re.fullmatch(r"\d+(/\d+)*", plain):
        sizes = [int(size) for size in plain.split("/")]
        if len(sizes) < 2:
            wanted = f"two sides or more, such as {halves}"
        elif sum(sizes) != nodes or min(sizes) < 1:
            total = f"{'+'.join(map(str, sizes))}={sum(sizes)} (or {sum(sizes)} nodes)"
            wanted = f"sides of 1 node or more that are {nodes} together, not {total}"
        else:
            side = [number for number, size in enumerate(sizes) for _ in range(size)]
            pairs = product(range(1, nodes + 1), repeat=2)
            cuts = frozenset((a, b) for a, b in pairs if side[a - 1] != side[b - 1])
    elif re.fullmatch(r"[\d,]+[->][\d,]+(\+[\d,]+[->][\d,]+)*", plain):
        for term in plain.split("+"):
            left, mark, right = re.split("([->])", term)
            ones, others = ([int(number or 0) for number in part.split(",")] for part in (left, right))
            if wrong := [number for number in (*ones, *others) if not 1 <= number <= nodes]:
                wanted = f"nodes from 1 to {nodes}, not {wrong[0]}"
            elif both := {*ones} & {*others}:
                wanted = f"different nodes on both sides of {mark}, not {min(both)} on each"
            cuts |= {*product(ones, others), *(product(others, ones) if mark == "-" else ())}
    else:
        wanted = f"sizes of sides such as {halves}, a one-way cut such as 1>2, or a broken link 1-2"
    if wanted:
        raise ShapeError(f"split: got {text!r} for {nodes} nodes, expected {wanted}")
    return Shape(plain, nodes, cuts)
