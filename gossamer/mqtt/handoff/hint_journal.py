"""Hints on disc: entries, and by node that is away its sessions, clients that moved, and filters.

A row is one fact under ``(node, kind, key)``. Without a disc nothing is written, and a hint counts as safe at
the end of the turn, as sessions in memory do. Filters are written a little late, :data:`FILTERS` in a tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import structlog

from gossamer.mnesia_like import Journal
from gossamer.mqtt.flow.commits import JournalWriter, Soon
from gossamer.mqtt.handoff.hints import Hint

log = structlog.get_logger(__name__)

OnSafe = Callable[[bool], None]

_ID, _NODE, _FILTER, _KEPT, _MOVED = range(5)
"""The kinds of rows."""
FILTERS = 5000


@dataclass(slots=True)
class Restored:
    """Rows of one node on disc."""

    node: list[object] = field(default_factory=lambda: ["", 0])
    """Generation of its sessions, its creation (0: not known) and, where known, the list of their clients."""
    entries: list[Hint] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)
    moved: dict[str, Sequence[int]] = field(default_factory=dict)


class HintJournal:
    """Writes hints, where there is a disc, and calls back once they are committed; ``wall``: time of day."""

    def __init__(self, *, now: Callable[[], float], wall: Callable[[], float], soon: Soon) -> None:
        self._now = now
        self._wall = wall
        self._soon = soon
        self._writer: JournalWriter | None = None
        self._filters: dict[tuple[str, str], bool] = {}
        """Changes of filters that are not written yet: whether a persistent session has it."""
        self._filters_ticket = 0

    def restore(
        self, journal: Journal, rows: Mapping[Any, Any], identity: str
    ) -> tuple[str, dict[str, Restored]]:
        """Write to ``journal`` from now on; return its first identity, and nodes with entries or filters."""
        self._writer = JournalWriter(journal, soon=self._soon)
        known = rows.get(("", _ID, 0))
        if not known:
            known = identity
            self._put("", _ID, 0, known)
        found: dict[str, Restored] = {}
        for (peer, kind, key), value in rows.items():
            restored = found.setdefault(peer, Restored())
            if kind == _NODE:
                restored.node = value
            elif kind == _KEPT:
                restored.entries.append(self.read(key, value))
            elif kind == _FILTER:
                restored.filters.append(key)
            elif kind == _MOVED:
                restored.moved[key] = value
        return known, {peer: one for peer, one in found.items() if one.entries or one.filters}

    # -- rows

    def node(self, peer: str, row: list[object] | None) -> None:
        """Write the row of a node (see :class:`Restored`); None: delete it."""
        self._put(peer, _NODE, 0, row)

    def moved(self, peer: str, client_id: str, bounds: Sequence[int] | None) -> None:
        """Write which numbers are not for a client; None: delete it."""
        self._put(peer, _MOVED, client_id, bounds)

    def keep(self, peer: str, hint: Hint) -> None:
        """Write an entry."""
        self._put(peer, _KEPT, hint.number, self.row(hint))

    def drop(self, peer: str, number: int) -> None:
        """Delete an entry."""
        self._put(peer, _KEPT, number, None)

    def wanted(self, peer: str, topic_filter: str, persistent: bool) -> None:
        """Note whether persistent sessions of a node have a filter; :meth:`write_filters` writes it."""
        if self._writer is not None:
            self._filters[peer, topic_filter] = persistent

    def write_filters(self) -> None:
        """Write up to :data:`FILTERS` of the changed filters, once the previous ones are on disc."""
        writer = self._writer
        if writer is None or self._filters_ticket > writer.committed:
            return
        for (peer, topic_filter), persistent in list(islice(self._filters.items(), FILTERS)):
            del self._filters[peer, topic_filter]
            self._put(peer, _FILTER, topic_filter, True if persistent else None)
        self._filters_ticket = writer.ticket

    def row(self, hint: Hint) -> list[object]:
        """Return an entry as it is written, and handed over, without its number; its time is of day."""
        at = hint.at - self._now() + self._wall()
        return [at, hint.records, hint.count, hint.live, hint.session, hint.frame]

    def read(self, number: int, row: list[Any]) -> Hint:
        """Return the entry of a :meth:`row`, its time on this node's clock."""
        at, *rest = row
        return Hint(number, at - self._wall() + self._now(), *rest)

    def _put(self, peer: str, kind: int, key: object, value: object) -> None:
        if self._writer is not None:
            self._writer.write((peer, kind, key), value)

    # -- commits

    def when_safe(self, waiting: list[OnSafe]) -> None:
        """Call these with True once all that was written so far is on disc; never within this call."""
        writer = self._writer
        if writer is None or writer.ticket <= writer.committed:
            self._soon(partial(_tell, waiting))
        else:
            writer.after(writer.ticket, partial(_tell, waiting))


def _tell(waiting: list[OnSafe]) -> None:
    for on_safe in waiting:
        try:
            on_safe(True)
        except Exception:
            # The others still have to be called, and in order.
            log.exception("on_safe_failed")
