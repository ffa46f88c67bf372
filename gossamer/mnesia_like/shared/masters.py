"""Master nodes: whose rows of a shared table count when this node starts.

What its own disc holds is *provisional* until a master has answered: it is read, but not offered to peers,
and whatever a peer says of such a row counts, however old. See ``Store.set_master_nodes``.
"""

from __future__ import annotations

from gossamer.mnesia_like.exchange.exchange import OwnedState
from gossamer.mnesia_like.shared.versions import answered
from gossamer.mnesia_like.values import Key

__all__ = ["Masters"]


class Masters:
    """Of one table; no ``names``: the node's own rows count as any."""

    __slots__ = ("names", "provisional")

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.provisional: set[Key] = set()

    def settle(self, key: Key) -> bool:
        """What stands under ``key`` counts from now on; whether it did not until now."""
        if key in self.provisional:
            self.provisional.discard(key)
            return True
        return False

    def answered(self, state: OwnedState) -> bool:
        """Whether rows are provisional and a master has answered."""
        return bool(self.provisional) and any(answered(state, name) for name in self.names)

    def release(self) -> list[Key]:
        """The keys of what is provisional; none is any more."""
        keys = list(self.provisional)
        self.provisional.clear()
        return keys

    def waits_for(self, table: str) -> str:
        """Whom the table waits for, in words; empty: nobody."""
        if not self.provisional:
            return ""
        return f"{table}: none of its master nodes ({', '.join(self.names)}) has answered"
