"""The kinds of drills, as one table: where each strikes, what it takes, and what is said of it.

The command makes a subcommand of each row, the API a form; what a drill does, step by step, is decided in
``gossamer.drill.run.script``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DrillKind = Literal[
    "partition", "flapping", "slow", "kill", "pause", "rolling", "clock", "coordinator", "disk"
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
    """One kind."""

    says: str
    name: str
    """In reports, of one with a ``{shape}``."""
    happened: str
    """What was done, for a report: {sides}, {shape}, {nodes}, {time}, {jump}, {slowness}."""
    at: Literal["split", "node", "all"] = "node"
    """What its shape names: the sides of a split, or one node."""
    settings: tuple[DrillSetting, ...] = ()

    @property
    def defaults(self) -> dict[str, float]:
        """Its settings by name."""
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
}
