"""The nodes that routes lead to: their bits in the masks of the index, and their forwarders.

A node gets a bit when it is first seen and gives it back when it is down and owns no route any more. A node
that is down keeps its routes, for its table rows outlive it by the grace time, but is not forwarded to,
unless there is a keeper: then its forwarder takes what its *persistent* sessions want, and hands it to the
keeper. A second bit marks those filters; a node gets it with the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from gossamer.routes.forwarding.forwarder import Forwarder


class Keeper(Protocol):
    """Store of messages for persistent sessions of nodes that are away; see ``Router.keep_with``."""

    def up(self, peer: str, /) -> bool:
        """``peer`` is back, or new; True: nothing is kept for it, and nothing that comes now need be."""

    def down(self, peer: str, creation: int, /) -> None:
        """``peer`` went down in that creation: from now on :meth:`take` is told what comes for it."""

    def gone(self, peer: str, /) -> None:
        """``peer`` is permanently removed: nothing is kept for it any more."""

    def take(self, peer: str, record: bytes, on_safe: Callable[[bool], None], /) -> None:
        """Keep acknowledged records, and say when they are safe; never within this call."""

    def left(self, peer: str, number: int, records: bytes, waiting: list[Callable[[bool], None]], /) -> int:
        """Take what ``peer`` had not acknowledged of a frame (0: it was never sent); return how many messages
        are not kept, since no persistent session there wants them."""

    def wanted(self, peer: str, topic_filter: str, persistent: bool, /) -> None:
        """A persistent session of ``peer`` has come to want a filter, or none does so any more."""


@dataclass(slots=True, eq=False)
class NodeSlot:
    """One remote node. ``routes`` counts the filters it wants, ``groups`` are forwarders to share groups."""

    name: str
    bit: int
    forwarder: Forwarder
    forwarders: tuple[Forwarder, ...]
    """All that lead to this node."""
    groups: dict[str, Forwarder] = field(default_factory=dict)
    kept: Forwarder | None = None
    """To its persistent sessions alone: what was kept for them while it was away."""
    routes: int = 0
    persistent_bit: int = 0
    """The bit of the filters that its persistent sessions want; 0 until there is one."""
    away: bool = False
    """It is down, or back and not yet given all that was kept for it."""
    expected: set[str] = field(default_factory=set)
    """Filters that its persistent sessions wanted when it went, without a row here since."""

    def renew(self) -> None:
        """Other forwarders lead to this node."""
        kept = () if self.kept is None else (self.kept,)
        self.forwarders = (self.forwarder, *kept, *self.groups.values())

    @property
    def up(self) -> bool:
        """Return whether it is forwarded to."""
        return self.forwarder.up


class NodeTable:
    """Remote nodes by name and by bit. ``make`` makes the forwarder of a node."""

    __slots__ = ("_by_mask", "_make", "_slots", "_used", "get", "retired")

    def __init__(self, make: Callable[[str], Forwarder]) -> None:
        self._make = make
        self._slots: dict[str, NodeSlot] = {}
        self.get = self._slots.get
        """The slot of a node that has one."""
        self._used = 0
        self._by_mask: dict[int, tuple[Forwarder, ...]] = {0: ()}
        self.retired: Counter[str] = Counter()
        """What the forwarders that are no more had counted."""

    def slot(self, name: str) -> NodeSlot:
        """The slot of a node, down until it is said to be up."""
        slot = self._slots.get(name)
        if slot is None:
            forwarder = self._make(name)
            slot = self._slots[name] = NodeSlot(name, self._free_bit(), forwarder, (forwarder,))
        return slot

    def persistent_bit(self, slot: NodeSlot) -> int:
        """The bit of a node's persistent sessions, given to it now if it has none."""
        if not slot.persistent_bit:
            slot.persistent_bit = self._free_bit()
        return slot.persistent_bit

    def _free_bit(self) -> int:
        # The lowest one keeps masks small.
        bit = ~self._used & (self._used + 1)
        self._used |= bit
        return bit

    def set_up(self, name: str, up: bool) -> NodeSlot | None:
        """A node came up or went down; its slot where that changes something."""
        slot = self._slots.get(name)
        if slot is None:
            if not up:
                return None
            slot = self.slot(name)
        changed = slot.up is not up
        for forwarder in slot.forwarders:
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
        idle = not (slot.routes or slot.up or slot.away or slot.expected)
        if idle and self._slots.get(slot.name) is slot:
            del self._slots[slot.name]
            for forwarder in slot.forwarders:
                self.retired.update(forwarder.counts)
            self._used &= ~(slot.bit | slot.persistent_bit)
            self._by_mask = {0: ()}

    def forwarders(self, mask: int) -> tuple[Forwarder, ...]:
        """The forwarders of the nodes of a mask that are up, or whose persistent sessions are kept for."""
        found = self._by_mask.get(mask)
        if found is None:
            found = tuple(
                slot.forwarder
                for slot in self._slots.values()
                if (slot.up and slot.bit & mask) or (slot.away and slot.persistent_bit & mask)
            )
            if len(self._by_mask) > 4096:
                self._by_mask = {0: ()}
            self._by_mask[mask] = found
        return found

    def renew(self) -> None:
        """Whom a mask leads to has changed."""
        self._by_mask = {0: ()}

    def counts(self) -> Counter[str]:
        """Sum of the counts of all forwarders, past ones too."""
        total = Counter(self.retired)
        for slot in self._slots.values():
            for forwarder in slot.forwarders:
                total.update(forwarder.counts)
        return total

    def __iter__(self) -> Iterator[NodeSlot]:
        return iter(tuple(self._slots.values()))

    def __len__(self) -> int:
        return len(self._slots)
