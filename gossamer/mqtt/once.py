"""Which messages of QoS 2 a session has taken: what reaches it a second time, by another way, is known.

Between nodes a message may come twice although no link doubles anything: to the old session of a client that
went elsewhere and to its new one, from a node that kept it and from the one that it was given to. Each
message of QoS 2 has an identifier (``idents``) from the node that took it from its publisher, and a session
that outlives its connection remembers those it has taken, wherever it goes.

Rules: 1. Bounded: of each life of a node the latest :data:`REMEMBERED`.  2. QoS 1 has no such memory: it is
promised at least once, and its path is the hot one.

Rejected: a row on disc for each. What a restart needs is there in the rows of what is queued and in flight;
links and spools know by their own numbers what they have delivered.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap64

from gossamer.mqtt.idents import NO_IDENT, base_of, life_of, number_of, origin_of

__all__ = ["Once"]

REMEMBERED = 65_536


class Once:
    """The identifiers that one session has taken."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[int, BitMap64] = {}
        """By life of a node (see ``idents``), numbers."""

    def admit(self, ident: int) -> bool:
        """Note a message; False where it was noted before."""
        life, number = life_of(ident), number_of(ident)
        taken = self._taken.get(life)
        if taken is None:
            taken = self._taken[life] = BitMap64()
        if number in taken:
            return False
        taken.add(number)
        if len(taken) > REMEMBERED:
            taken.remove_range(0, taken[REMEMBERED // 2])
        return True

    def release(self, idents: Iterable[int]) -> None:
        """Forget messages: they were taken, and nobody has had them."""
        for ident in idents:
            taken = self._taken.get(life_of(ident))
            if ident != NO_IDENT and taken is not None:
                taken.discard(number_of(ident))

    def __contains__(self, ident: int) -> bool:
        taken = self._taken.get(life_of(ident))
        return taken is not None and number_of(ident) in taken

    def dump(self) -> list[tuple[str, int, bytes]]:
        """Everything, as plain data: origin, creation, numbers."""
        return [(*origin_of(life), taken.serialize()) for life, taken in self._taken.items()]

    def load(self, dumped: Iterable[tuple[str, int, bytes]]) -> None:
        """Add what :meth:`dump` gave, here or on another node."""
        for origin, creation, numbers in dumped:
            life = base_of(origin, creation)
            taken = BitMap64.deserialize(numbers)
            known = self._taken.get(life)
            self._taken[life] = taken if known is None else known | taken
