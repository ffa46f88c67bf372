"""Who holds which global name, node by node, as one node sees it; and the messages that say so.

Of several holders all nodes see the same one: the older registration by a logical clock, then the smaller
pid.
"""

from __future__ import annotations

from msgspec import Struct

from gossamer.distribution.remote.terms import register_message
from gossamer.supervisor import Pid

__all__ = ["Holding", "Names"]


class Holding(Struct, frozen=True):
    """A registration."""

    pid: Pid
    stamp: int
    resolve: str


register_message(Holding, "global.Holding")


class Names:
    """The names as this node sees them: who holds each, node by node."""

    def __init__(self) -> None:
        self._holdings: dict[str, dict[str, Holding]] = {}
        self.clock = 0

    def names(self) -> list[str]:
        """The names that somebody holds."""
        return list(self._holdings)

    def winner(self, name: str) -> Holding | None:
        """Who has the name; the same on every node that knows the same."""
        held = self._holdings.get(name)
        return min(held.values(), key=lambda one: (one.stamp, one.pid)) if held else None

    def get(self, name: str, node: str) -> Holding | None:
        """What ``node`` holds under the name."""
        return self._holdings.get(name, {}).get(node)

    def of_node(self, node: str) -> dict[str, Holding]:
        """All that ``node`` holds."""
        return {name: held[node] for name, held in self._holdings.items() if node in held}

    def nodes(self) -> set[str]:
        """The nodes that hold anything."""
        return {node for held in self._holdings.values() for node in held}

    def put(self, name: str, node: str, holding: Holding | None) -> None:
        """Note what ``node`` holds under the name; None: nothing."""
        if holding is not None:
            self.clock = max(self.clock, holding.stamp)
            self._holdings.setdefault(name, {})[node] = holding
        elif (held := self._holdings.get(name)) is not None:
            held.pop(node, None)
            if not held:
                del self._holdings[name]
