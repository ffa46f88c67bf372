"""Which messages of QoS 2 a session has taken: what reaches it a second time, by another way, is known.

Between nodes a message may come twice although no link doubles anything: to the old session of a client that
went elsewhere and to its new one, from a node that kept it and from the one that it was given to. Each
message of QoS 2 has an identifier (``message_ids``) from the node that took it from its publisher, and a
session that outlives its connection remembers those it has taken, wherever it goes.

Rules: 1. Bounded: of each life of a node at least the latest half of :data:`REMEMBERED`, of the latest
:data:`LIVES` lives.  2. QoS 1 has no such memory: it is promised at least once, and its path is the hot one.
3. Kept in blocks of :data:`BLOCK` numbers, a bit each, so that what changes in one commit is a row of 32
bytes (``durable``): a message that a client has had is not taken again after a crash either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gossamer.mqtt.messages.message_ids import NO_ID, base_of, life_of, number_of, origin_of

REMEMBERED = 65_536
LIVES = 16
BLOCK = 256

Block = tuple[str, int, int, bytes]
"""Origin, creation, place of the block, a bit for each number in it."""


class Once:
    """The identifiers that one session has taken. ``note`` is told of blocks that change."""

    __slots__ = ("_lives", "note")

    def __init__(self, note: Callable[[Block], None] | None = None) -> None:
        self._lives: dict[int, dict[int, int]] = {}
        """By life of a node (see ``message_ids``), and place."""
        self.note = note

    @classmethod
    def of(cls, dumped: Iterable[Block]) -> Once:
        """Rebuild it from what :meth:`dump` returned."""
        once = cls()
        once.load(dumped)
        return once

    def admit(self, message_id: int) -> bool:
        """Note a message; False where it was noted before."""
        life, number = life_of(message_id), number_of(message_id)
        place, bit = number // BLOCK, 1 << number % BLOCK
        blocks = self._lives.get(life)
        bits = 0 if blocks is None else blocks.get(place, 0)
        if bits & bit:
            return False
        self._put(life, place, bits | bit)
        return True

    def release(self, message_ids: Iterable[int]) -> None:
        """Forget messages: they were taken, and nobody has had them."""
        for message_id in message_ids:
            if message_id != NO_ID and message_id in self:
                place = number_of(message_id) // BLOCK
                bits = self._lives[life_of(message_id)][place]
                self._put(life_of(message_id), place, bits & ~(1 << number_of(message_id) % BLOCK))

    def __bool__(self) -> bool:
        return bool(self._lives)

    def __contains__(self, message_id: int) -> bool:
        number = number_of(message_id)
        return bool(self._lives.get(life_of(message_id), {}).get(number // BLOCK, 0) & 1 << number % BLOCK)

    def dump(self) -> list[Block]:
        """Everything, as plain data."""
        return list(self._all())

    def load(self, dumped: Iterable[Block]) -> None:
        """Add what :meth:`dump` gave, here or on another node."""
        for origin, creation, place, bits in dumped:
            life = base_of(origin, creation)
            before = self._lives.get(life, {}).get(place, 0)
            both = before | int.from_bytes(bits, "little")
            if both != before:
                self._put(life, place, both)

    def clear(self) -> None:
        """Forget everything."""
        for life, blocks in self._lives.items():
            for place in blocks:
                self._tell(life, place, 0)
        self._lives.clear()

    def _all(self) -> Iterator[Block]:
        for life, blocks in self._lives.items():
            origin, creation = origin_of(life)
            for place, bits in blocks.items():
                yield origin, creation, place, bits.to_bytes(BLOCK // 8, "little")

    def _put(self, life: int, place: int, bits: int) -> None:
        blocks = self._lives.get(life)
        if blocks is None:
            if len(self._lives) >= LIVES:
                oldest = next(iter(self._lives))
                for gone in self._lives.pop(oldest):
                    self._tell(oldest, gone, 0)
            blocks = self._lives[life] = {}
        new = place not in blocks
        blocks[place] = bits
        self._tell(life, place, bits)
        if new and len(blocks) > REMEMBERED // BLOCK:
            for gone in sorted(blocks)[: len(blocks) // 2]:
                del blocks[gone]
                self._tell(life, gone, 0)

    def _tell(self, life: int, place: int, bits: int) -> None:
        if self.note is not None:
            origin, creation = origin_of(life)
            self.note((origin, creation, place, bits.to_bytes(BLOCK // 8, "little") if bits else b""))
