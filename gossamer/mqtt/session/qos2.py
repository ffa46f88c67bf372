"""Duplicate suppression of QoS 2: a session remembers the messages that it has taken.

Between nodes a message may come twice although no link duplicates anything: to the old session of a client
and to the new one on another node, or from two nodes that both have a hint. Each message of QoS 2 has an id
(``message_ids``) from the node that took it from its publisher, and a persistent session remembers those it
has taken, wherever it moves.

Rules: 1. Bounded: of each of the latest :data:`CREATIONS` creations of nodes, at least the last half of
:data:`REMEMBERED` ids.  2. QoS 1 has no such memory: it is delivered at least once, and its path is the hot
one.  3. Kept in blocks of :data:`BLOCK` numbers, a bit each, so that a change is one row of 32 bytes on disc
(``durable``): a message that a client has had is not taken again after a crash either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gossamer.mqtt.messages.message_ids import NO_ID, base_in, base_of, number_of, origin_of

REMEMBERED = 65_536
CREATIONS = 16
BLOCK = 256

Block = tuple[str, int, int, bytes]
"""Origin node, its creation, index of the block, and 32 bytes: a bit for each number in it."""


class Once:
    """Ids of the messages that one session has taken. ``note`` is called with blocks that change."""

    __slots__ = ("_creations", "note")

    def __init__(self, note: Callable[[Block], None] | None = None) -> None:
        self._creations: dict[int, dict[int, int]] = {}
        """Bits of blocks, by creation of a node (``message_ids.base_of``) and index of the block."""
        self.note = note

    @classmethod
    def of(cls, dumped: Iterable[Block]) -> Once:
        """Return one with the blocks of :meth:`dump`."""
        once = cls()
        once.load(dumped)
        return once

    def admit(self, message_id: int) -> bool:
        """Note a message; False: it was noted before."""
        base, number = base_in(message_id), number_of(message_id)
        place, bit = number // BLOCK, 1 << number % BLOCK
        blocks = self._creations.get(base)
        bits = 0 if blocks is None else blocks.get(place, 0)
        if bits & bit:
            return False
        self._put(base, place, bits | bit)
        return True

    def release(self, message_ids: Iterable[int]) -> None:
        """Forget messages that were taken but never delivered."""
        for message_id in message_ids:
            if message_id != NO_ID and message_id in self:
                place = number_of(message_id) // BLOCK
                bits = self._creations[base_in(message_id)][place]
                self._put(base_in(message_id), place, bits & ~(1 << number_of(message_id) % BLOCK))

    def __bool__(self) -> bool:
        return bool(self._creations)

    def __contains__(self, message_id: int) -> bool:
        number = number_of(message_id)
        return bool(
            self._creations.get(base_in(message_id), {}).get(number // BLOCK, 0) & 1 << number % BLOCK
        )

    def dump(self) -> list[Block]:
        """Return all blocks."""
        return list(self._all())

    def load(self, dumped: Iterable[Block]) -> None:
        """Add the blocks of :meth:`dump`, of this node or another."""
        for origin, creation, place, bits in dumped:
            base = base_of(origin, creation)
            before = self._creations.get(base, {}).get(place, 0)
            both = before | int.from_bytes(bits, "little")
            if both != before:
                self._put(base, place, both)

    def clear(self) -> None:
        """Forget everything."""
        for base, blocks in self._creations.items():
            for place in blocks:
                self._tell(base, place, 0)
        self._creations.clear()

    def _all(self) -> Iterator[Block]:
        for base, blocks in self._creations.items():
            origin, creation = origin_of(base)
            for place, bits in blocks.items():
                yield origin, creation, place, bits.to_bytes(BLOCK // 8, "little")

    def _put(self, base: int, place: int, bits: int) -> None:
        blocks = self._creations.get(base)
        if blocks is None:
            if len(self._creations) >= CREATIONS:
                oldest = next(iter(self._creations))
                for gone in self._creations.pop(oldest):
                    self._tell(oldest, gone, 0)
            blocks = self._creations[base] = {}
        new = place not in blocks
        blocks[place] = bits
        self._tell(base, place, bits)
        if new and len(blocks) > REMEMBERED // BLOCK:
            for gone in sorted(blocks)[: len(blocks) // 2]:
                del blocks[gone]
                self._tell(base, gone, 0)

    def _tell(self, base: int, place: int, bits: int) -> None:
        if self.note is not None:
            origin, creation = origin_of(base)
            self.note((origin, creation, place, bits.to_bytes(BLOCK // 8, "little") if bits else b""))
