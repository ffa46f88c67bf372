"""What other processes say to the healer of their node, and healers to each other about settings."""

from __future__ import annotations

from msgspec import Struct

from gossamer.supervisor import Pid

__all__ = ["DryRun", "Replay", "Replayed", "SetAutoclean", "SetAutoheal", "Settings", "Subscribe"]


class Subscribe(Struct, frozen=True):
    """A cast: send ``pid`` every :class:`Partition`, :class:`Cleaned`, and :class:`Episode` of a heal."""

    pid: Pid


class SetAutoclean(Struct, frozen=True):
    """A call: from now on members that are down longer than ``limit`` seconds are removed; None: nobody.

    All nodes that are up follow, and keep it over restarts; one that was away has it from its peers. The
    configuration file stays as it is.
    """

    limit: float | None


class SetAutoheal(Struct, frozen=True):
    """A call: from now on the leader waits ``delay`` seconds before it heals; None: never. See above."""

    delay: float | None


class DryRun(Struct, frozen=True):
    """A call: what would be healed now, as a plan; None where all nodes saw the same. Changes nothing."""


class Replay(Struct, frozen=True):
    """A call: write a row of the quarantine again. Answered with the row, or with the error."""

    id: str


class Replayed(Struct, frozen=True):
    """From healer to healer: this row of the quarantine was written again, nobody need keep it."""

    id: str


class Settings(Struct, frozen=True):
    """From healer to healer: what an operator set; the later ``serial`` counts."""

    source: str
    serial: int
    autoheal: float | None
    autoclean: float | None
