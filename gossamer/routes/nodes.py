"""The nodes that routes lead to: their bits in the masks of the index, and their forwarders.

A node gets a bit when it is first heard of and gives it back when it is down and owns no route any more. A
node that is down keeps its routes, for its table rows outlive it by the grace time, but is not forwarded
to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from gossamer.routes.forwarder import Forwarder

__all__ = ["NodeSlot", "NodeTable"]


class NodeSlot:
    """One remote node. ``routes`` counts the filters it wants, ``groups`` are forwarders to share groups."""

    __slots__ = ("bit", "forwarder", "groups", "name", "routes")

    def __init__(self, name: str, bit: int, forwarder: Forwarder) -> None:
        self.name = name
        self.bit = bit
        self.forwarder = forwarder
        self.groups: dict[str, Forwarder] = {}
        self.routes = 0

    @property
    def up(self) -> bool:
        """Whether it is forwarded to."""
        return self.forwarder.up

    def forwarders(self) -> tuple[Forwarder, ...]:
        """All that lead to this node."""
        return (self.forwarder, *self.groups.values())


class NodeTable:
    """Remote nodes by name and by bit. ``make`` makes the forwarder of a node."""

    __slots__ = ("_by_mask", "_make", "_slots", "_used", "retired")

    def __init__(self, make: Callable[[str], Forwarder]) -> None:
        self._make = make
        self._slots: dict[str, NodeSlot] = {}
        self._used = 0
        self._by_mask: dict[int, tuple[Forwarder, ...]] = {0: ()}
        self.retired: Counter[str] = Counter()
        """What the forwarders that are no more had counted."""

    def get(self, name: str) -> NodeSlot | None:
        """The slot of a node that has one."""
        return self._slots.get(name)

    def slot(self, name: str) -> NodeSlot:
        """The slot of a node, down until it is said to be up."""
        slot = self._slots.get(name)
        if slot is None:
            # The lowest free bit keeps masks small.
            bit = ~self._used & (self._used + 1)
            self._used |= bit
            slot = self._slots[name] = NodeSlot(name, bit, self._make(name))
        return slot

    def set_up(self, name: str, up: bool) -> NodeSlot | None:
        """A node came up or went down; its slot where that changes something."""
        slot = self._slots.get(name)
        if slot is None:
            if not up:
                return None
            slot = self.slot(name)
        changed = slot.up is not up
        for forwarder in slot.forwarders():
            if up:
                forwarder.up = True
            else:
                # Even where it was down: what was appended since then must be answered.
                forwarder.down()
        self._by_mask = {0: ()}
        self.release(slot)
        return slot if changed else None

    def release(self, slot: NodeSlot) -> None:
        """Give the bit of a node back if nothing needs it any more."""
        if not slot.routes and not slot.up and self._slots.get(slot.name) is slot:
            del self._slots[slot.name]
            for forwarder in slot.forwarders():
                self.retired.update(forwarder.counts)
            self._used &= ~slot.bit
            self._by_mask = {0: ()}

    def forwarders(self, mask: int) -> tuple[Forwarder, ...]:
        """The forwarders of the nodes of a mask that are up."""
        found = self._by_mask.get(mask)
        if found is None:
            found = tuple(s.forwarder for s in self._slots.values() if s.bit & mask and s.up)
            if len(self._by_mask) > 4096:
                self._by_mask = {0: ()}
            self._by_mask[mask] = found
        return found

    def counts(self) -> Counter[str]:
        """What all forwarders, those of the past too, have counted together."""
        total = Counter(self.retired)
        for slot in self._slots.values():
            for forwarder in slot.forwarders():
                total.update(forwarder.counts)
        return total

    def __iter__(self) -> Iterator[NodeSlot]:
        return iter(tuple(self._slots.values()))

    def __len__(self) -> int:
        return len(self._slots)
