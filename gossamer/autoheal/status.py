"""A node's knowledge of splits, readable by anybody, and a heal in words."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from gossamer.autoheal.leader import Phase
from gossamer.autoheal.quarantine import Quarantine
from gossamer.autoheal.values import HealPlan, Incident, Partition

_EVENTS = 64


class Cleaned(Struct, frozen=True):
    """This node removed ``member``, down for ``down_for`` seconds, at wall-clock time ``at``."""

    member: str
    at: float
    down_for: float


class HealStatus:
    """Readable without asking anybody; made once a node."""

    def __init__(self) -> None:
        self.node = ""
        self.open: tuple[Partition, ...] = ()
        """The alarm ``partition``: pairs of this node that are not healed."""
        self.history: tuple[Incident, ...] = ()
        """The alarms ``healed``, latest last."""
        self.phase: Phase = "idle"
        self.leader = ""
        self.plan: HealPlan | None = None
        """The plan that this node leads or coordinates."""
        self.down: dict[str, float] = {}
        """Members that are down, and for how many seconds."""
        self.autoheal: float | None = None
        self.autoclean: float | None = None
        self.cleaned: deque[Cleaned] = deque(maxlen=_EVENTS)
        """Members that this node removed for being down too long."""
        self.raised: deque[Partition] = deque(maxlen=_EVENTS)
        """Every ``inconsistent_database`` since the start."""
        self.counts = {"partitions": 0, "heals": 0, "reloads": 0, "cleaned": 0}
        self.quarantine = Quarantine()


def describe(episode: Incident) -> str:
    """A heal in words."""
    rows = episode.rows
    parts = [
        f"{_sight(episode.saw_down)}; healed {_seconds(episode.healed_at - episode.split_at)} after that",
        f"survivors {_names(episode.survivors)}",
        f"reloaded {_names(episode.reloaded)}",
    ]
    if episode.skipped:
        parts.append(f"stayed away {_names(episode.skipped)}")
    if rows.restored:
        parts.append(f"{_rows(rows.restored)} set back to the survivors'")
    if rows.merged:
        parts.append(f"{_rows(rows.merged)} merged")
    parts.append(f"{_rows(rows.quarantined)} in quarantine")
    if rows.left:
        parts.append(f"{_rows(rows.left)} left to the latest write; the log says why")
    return "; ".join(parts)


def _sight(saw_down: dict[str, tuple[str, ...]]) -> str:
    """Describe which nodes considered which down, grouped by equal views."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, peers in saw_down.items():
        alike.setdefault(peers, []).append(name)
    return "; ".join(f"{_names(tuple(names))} saw {_names(peers)} down" for peers, names in alike.items())


def _rows(count: int) -> str:
    return f"{count or 'no'} row{'' if count == 1 else 's'}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nobody"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"
