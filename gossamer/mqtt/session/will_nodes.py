"""Other nodes by creation, as far as wills depend on it: which are up, may be dead, or are proven dead."""

from __future__ import annotations

from dataclasses import dataclass

UNREACHABLE_TIMEOUT = 60.0
"""Seconds without an answer after which a node is taken for dead without proof."""
REFUSALS = 3
"""Connections in a row that a host must refuse, so that a restart of a listener is not taken for a death."""


@dataclass(slots=True)
class Missing:
    """A node that was up and does not answer; ``settled``: it does not count for the majority any more."""

    creation: int
    since: float
    refusals: int = 0
    settled: bool = False

    @property
    def dead(self) -> bool:
        return self.refusals >= REFUSALS


@dataclass(frozen=True, slots=True)
class End:
    """Last state of a node's rows that was seen before it went down."""

    position: int
    """Number of its changes that were seen."""
    number: int
    """Number of its last will."""
    keys: frozenset[tuple[str, str]]
    """Its wills."""
    since: float


class NodeCreations:
    """Other nodes, each with its current or last creation. An *origin* is one creation: ``name/creation``."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        """Creations of nodes that are up."""
        self.missing: dict[str, Missing] = {}
        self.ends: dict[str, End] = {}
        """By origin that went down, the last state seen."""
        self.numbers: dict[str, int] = {}
        """By origin that is up, the number of its last will."""

    def up(self, name: str, creation: int) -> None:
        """Note that a node is up."""
        self.known[name] = creation
        self.missing.pop(name, None)

    def down(self, name: str, creation: int, now: float, *, left: bool) -> None:
        """Note that a node is down; ``left``: it left the cluster."""
        self.known.pop(name, None)
        if left:
            self.missing.pop(name, None)
        else:
            self.missing[name] = Missing(creation, now)

    def seen(self) -> dict[str, int]:
        """Return the creations of nodes that are up, or may be."""
        missing = {name: self.missing[name].creation for name in self.doubted()}
        return missing | self.known

    def doubted(self) -> list[str]:
        """Return the missing nodes that are neither proven dead nor settled."""
        return [name for name, one in self.missing.items() if not (one.dead or one.settled)]

    def refused(self, name: str, *, refused: bool) -> None:
        """Count the connections in a row that the host of a missing node has refused."""
        one = self.missing.get(name)
        if one is not None:
            one.refusals = one.refusals + 1 if refused else 0

    def majority(self) -> bool:
        """Return whether this node sees at least half of those that may be alive, itself included."""
        absent = len(self.doubted())
        return len(self.known) + 1 >= absent

    def settle(self, now: float) -> None:
        """Stop counting nodes that have been missing for :data:`UNREACHABLE_TIMEOUT`."""
        for one in self.missing.values():
            one.settled = one.settled or now >= one.since + UNREACHABLE_TIMEOUT

    def is_over(self, origin: str, now: float) -> bool:
        """Return whether a creation of another node has ended: by proof, or :data:`UNREACHABLE_TIMEOUT`."""
        name, _, creation = origin.rpartition("/")
        missing = self.missing.get(name)
        if missing is None or missing.creation != int(creation) or missing.dead:
            # It is up in another creation, or has left, or is proven dead.
            return True
        return now >= missing.since + UNREACHABLE_TIMEOUT

    def is_later(self, name: str, creation: str) -> bool:
        """Return whether a node is up in a later creation than that."""
        return self.known.get(name, 0) > int(creation)


def origin_name(name: str, creation: int) -> str:
    """Return ``name/creation``: one creation of a node."""
    return f"{name}/{creation}"
