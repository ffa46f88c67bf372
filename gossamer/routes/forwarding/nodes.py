"""Remote nodes that routes lead to: their bits in the masks of the index, and their forwarders.

A node gets a bit when it is first seen; the bit is free again when the node is down and owns no route. A node
that is down keeps its routes, since its rows outlive it by the grace time, but is not forwarded to, unless
there is a keeper: then its forwarder passes messages for its *persistent* sessions to it. A second bit marks
the filters of these; a node gets it with the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from gossamer.routes.forwarding.forwarder import Forwarder


class Keeper(Protocol):
    """Keeper of hints for persistent sessions of nodes that are away; see ``Router.keep_with``."""

    def up(self, peer: str, /) -> bool:
        """Note that ``peer`` is back, or new; True: it has no hints, and is forwarded to directly."""

    def down(self, peer: str, creation: int, /) -> None:
        """Note that ``peer`` went down in that creation: :meth:`take` gets its records from now on."""

    def gone(self, peer: str, /) -> None:
        """Drop the hints of ``peer``, which is permanently removed."""

    def take(self, peer: str, record: bytes, on_safe: Callable[[bool], None], /) -> None:
        """Keep acknowledged records, and call ``on_safe`` once they are safe; never within this call."""

    def left(self, peer: str, number: int, records: bytes, waiting: list[Callable[[bool], None]], /) -> int:
        """Take the records of frame ``number`` (0: never sent) that ``peer`` had not acknowledged; return how
        many messages are not kept, since no persistent session there has a filter for them."""

    def wanted(self, peer: str, topic_filter: str, persistent: bool, /) -> None:
        """Note whether any persistent session of ``peer`` has a filter."""


@dataclass(slots=True, eq=False)
class NodeSlot:
    """One remote node. ``routes`` counts its filters, ``groups`` are forwarders to share groups by name."""

    name: str
    bit: int
    forwarder: Forwarder
    forwarders: tuple[Forwarder, ...]
    """All forwarders to this node."""
    groups: dict[str, Forwarder] = field(default_factory=dict)
    kept: Forwarder | None = None
    """Forwarder of hints, to its persistent sessions alone."""
    routes: int = 0
    persistent_bit: int = 0
    """Bit of the filters of its persistent sessions; 0 until there is one."""
    away: bool = False
    """It is down, or back and has not received all its hints."""
    expected: set[str] = field(default_factory=set)
    """Filters that its persistent sessions had when it went down, without a row here since."""

    def renew(self) -> None:
        """Rebuild ``forwarders``."""
        kept = () if self.kept is None else (self.kept,)
        self.forwarders = (self.forwarder, *kept, *self.groups.values())

    @property
    def up(self) -> bool:
        """Return whether it is forwarded to."""
        return self.forwarder.up


class NodeTable:
    """Remote nodes by name and by bit. ``make(name)`` returns a new forwarder."""

    __slots__ = ("_by_mask", "_make", "_slots", "_used", "get", "retired")

    def __init__(self, make: Callable[[str], Forwarder]) -> None:
        self._make = make
        self._slots: dict[str, NodeSlot] = {}
        self.get = self._slots.get
        """Returns the slot of a node, if it has one."""
        self._used = 0
        self._by_mask: dict[int, tuple[Forwarder, ...]] = {0: ()}
        self.retired: Counter[str] = Counter()
        """Counts of forwarders that were removed."""

    def slot(self, name: str) -> NodeSlot:
        """Return the slot of a node; a new one is down until :meth:`set_up`."""
        slot = self._slots.get(name)
        if slot is None:
            forwarder = self._make(name)
            slot = self._slots[name] = NodeSlot(name, self._free_bit(), forwarder, (forwarder,))
        return slot

    def persistent_bit(self, slot: NodeSlot) -> int:
        """Return the bit of a node's persistent sessions; assign one if it has none."""
        if not slot.persistent_bit:
            slot.persistent_bit = self._free_bit()
        return slot.persistent_bit

    def _free_bit(self) -> int:
        # The lowest one keeps masks small.
        bit = ~self._used & (self._used + 1)
        self._used |= bit
        return bit

    def set_up(self, name: str, up: bool) -> NodeSlot | None:
        """Set whether a node is up; return its slot, None if nothing changes."""
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
                # Even if it was down: records appended since then need their callbacks.
                forwarder.down()
        self._by_mask = {0: ()}
        self.release(slot)
        return slot if changed else None

    def release(self, slot: NodeSlot) -> None:
        """Remove a node, and free its bits, if nothing needs it any more."""
        idle = not (slot.routes or slot.up or slot.away or slot.expected)
        if idle and self._slots.get(slot.name) is slot:
            del self._slots[slot.name]
            for forwarder in slot.forwarders:
                self.retired.update(forwarder.counts)
            self._used &= ~(slot.bit | slot.persistent_bit)
            self._by_mask = {0: ()}

    def forwarders(self, mask: int) -> tuple[Forwarder, ...]:
        """Return the forwarders of nodes in a mask that are up, or away with persistent sessions in it."""
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
        """Clear the cache of forwarders by mask, after a node went away or came back."""
        self._by_mask = {0: ()}

    def counts(self) -> Counter[str]:
        """Return the sum of the counts of all forwarders, removed ones too."""
        total = Counter(self.retired)
        for slot in self._slots.values():
            for forwarder in slot.forwarders:
                total.update(forwarder.counts)
        return total

    def __iter__(self) -> Iterator[NodeSlot]:
        return iter(tuple(self._slots.values()))

    def __len__(self) -> int:
        return len(self._slots)
