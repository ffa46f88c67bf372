"""Which clients a list shows, and in which order: pure, and the same on every node that is asked.

Rules: 1. What is searched for is a part, upper and lower case alike; only an identifier can be named exactly.
2. An order is a key of texts, so that pages of all nodes are merged, and gone on with, as those of any list.
3. A node looks at its sessions one by one; what it compares is at hand, and no row is made for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gossamer.api.peers.paging import Key

__all__ = ["ClientSearch", "ClientSort", "sort_key"]

ClientSort = Literal[
    "client",
    "node",
    "username",
    "address",
    "connected_at",
    "subscriptions",
    "inflight",
    "queued",
    "dropped",
]
"""Fields of a client that a list may be sorted by."""

_DIGITS = 20
_HIGHEST = chr(0x10FFFF)


@dataclass(frozen=True, slots=True)
class ClientSearch:
    """The clients that are wanted; parts are case-folded, and let all in where they are empty."""

    client: str | None = None
    """Exactly this identifier."""
    connected: bool | None = None
    part: str = ""
    """Part of the identifier."""
    user: str = ""
    """Part of the user name."""
    address: str = ""
    """Part of the address."""
    sort: ClientSort | None = None
    """None: by identifier and node, as it stands."""
    descending: bool = False

    def admits(self, client: str, *, connected: bool, user: str, address: str) -> bool:
        """Whether a client is wanted."""
        return (
            self.connected in (None, connected)
            and self.part in client.casefold()
            and self.user in user.casefold()
            and self.address in address.casefold()
        )

    def key(self, row: dict[str, Any]) -> Key:
        """Where a row of the answer stands."""
        client, node = row["client"], row["node"]
        if self.sort is None:
            return client, node
        return sort_key(row[self.sort], descending=self.descending), client, node


def sort_key(value: str | float, *, descending: bool = False) -> str:
    """A text that sorts as ``value`` does; numbers to a thousandth, from 0 on."""
    if isinstance(value, str):
        folded = value.casefold()
        return folded.translate(_MIRROR) + _HIGHEST if descending else folded
    number = min(max(0, int(value * 1000)), 10**_DIGITS - 1)
    return f"{10**_DIGITS - 1 - number if descending else number:0{_DIGITS}d}"


class _Mirror:
    """The last letter for the first, and so on."""

    def __getitem__(self, code: int) -> str:
        return chr(0x10FFFF - code)


_MIRROR: Any = _Mirror()
