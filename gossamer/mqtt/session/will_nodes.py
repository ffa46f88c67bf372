"""Lives of other nodes, as far as their wills ask for that: who is up, who may be dead, and who surely is."""

from __future__ import annotations

from dataclasses import dataclass

UNREACHABLE_TIMEOUT = 60.0
"""Seconds without an answer, after which a node is taken for dead without proof."""
REFUSALS = 3
"""Connections in a row that a host must refuse, so that no restart of a listener is taken for a death."""


@dataclass(slots=True)
class Missing:
    """A node that was here and does not answer."""

    creation: int
    since: float
    refusals: int = 0
    settled: bool = False

    @property
    def dead(self) -> bool:
        return self.refusals >= REFUSALS


@dataclass(frozen=True, slots=True)
class End:
    """State of a life as it was seen when it was down."""

    position: int
    """How many of its changes."""
    number: int
    """That of its last will."""
    keys: frozenset[tuple[str, str]]
    """Its wills."""
    since: float


class NodeLives:
    """Other nodes, each with the life that it is in or was in last."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        """Those that are up, with their creation."""
        self.missing: dict[str, Missing] = {}
        self.ends: dict[str, End] = {}
        """By life, what was seen of those that are over."""
        self.numbers: dict[str, int] = {}
        """By life of a node that is up, the number of its last will."""

    def up(self, name: str, creation: int) -> None:
        """A node can be reached."""
        self.known[name] = creation
        self.missing.pop(name, None)

    def down(self, name: str, creation: int, now: float, *, left: bool) -> None:
        """A node is gone; ``left``: in order."""
        self.known.pop(name, None)
        if left:
            self.missing.pop(name, None)
        else:
            self.missing[name] = Missing(creation, now)

    def seen(self) -> dict[str, int]:
        """Nodes that are up, or may be."""
        missing = {name: self.missing[name].creation for name in self.doubted()}
        return missing | self.known

    def doubted(self) -> list[str]:
        """Nodes of which it is not known whether they are dead."""
        return [name for name, one in self.missing.items() if not (one.dead or one.settled)]

    def refused(self, name: str, *, refused: bool) -> None:
        """Count refusals in a row by the host of such a node."""
        one = self.missing.get(name)
        if one is not None:
            one.refusals = one.refusals + 1 if refused else 0

    def majority(self) -> bool:
        """Return whether this node sees half of those that may be alive."""
        absent = len(self.doubted())
        return len(self.known) + 1 >= absent

    def settle(self, now: float) -> None:
        """Stop counting nodes that have been missing for long enough: this is the cluster now."""
        for one in self.missing.values():
            one.settled = one.settled or now >= one.since + UNREACHABLE_TIMEOUT

    def is_over(self, life: str, now: float) -> bool:
        """Return whether a life of another node is taken for over: proven, or after a long silence."""
        name, _, creation = life.rpartition("/")
        missing = self.missing.get(name)
        if missing is None or missing.creation != int(creation) or missing.dead:
            # It is up in another life, or has left.
            return True
        return now >= missing.since + UNREACHABLE_TIMEOUT

    def is_later(self, name: str, creation: str) -> bool:
        """Return whether a node is up in a later life than that."""
        return self.known.get(name, 0) > int(creation)


def origin(name: str, creation: int) -> str:
    """One life of a node."""
    return f"{name}/{creation}"
