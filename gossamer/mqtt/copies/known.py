"""What a node has just read of copies that it is about to write, so that it need not read them again.

Rule: what is known here may be wrong by the time it is used. Each write requires the owner that was found, so
one that relies on it fails then, and the next one reads.
"""

from __future__ import annotations

from collections.abc import Mapping

ABSENT = 2.0
"""Seconds for which a session that was not found is not looked for again."""
MAX_ABSENT = 10_000

Rows = Mapping[bytes, bytes]
"""Rows of a copy, by the ends of their keys."""


class Known:
    """Rows of copies, by client. Times are passed in, in seconds."""

    def __init__(self) -> None:
        self.claimed: dict[str, Rows] = {}
        """Copies that are this node's, and not yet in the place of what else it has of them: nobody writes
        them meanwhile."""
        self._taken: dict[str, Rows] = {}
        """The same once they are in their place."""
        self._absent: dict[str, float] = {}
        """Clients that had no copy when it was looked for, and until when that is taken for granted."""

    def absent(self, client_id: str, now: float) -> None:
        """Note that there is no copy."""
        if len(self._absent) < MAX_ABSENT:
            self._absent[client_id] = now + ABSENT

    def taken(self, client_id: str) -> None:
        """Note that what was claimed is in its place here."""
        rows = self.claimed.pop(client_id, None)
        if rows is not None:
            self._taken[client_id] = rows

    def forget(self, client_id: str) -> None:
        """Forget a copy that was taken over, and is not to be written after all."""
        self._taken.pop(client_id, None)

    def take(self, client_id: str, now: float) -> Rows | None:
        """Return the rows of a copy, and rely on them no more after that; None: it is to be read."""
        absent = self._absent.pop(client_id, 0.0) > now
        return self._taken.pop(client_id, {} if absent else None)

    def tick(self, now: float) -> None:
        """Forget what is too old."""
        self._absent = {client_id: until for client_id, until in self._absent.items() if until > now}
