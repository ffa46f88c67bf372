"""What a simulated node records, read back as rows: without a writer, files or a clock of its own.

Everything is kept, from when it is made until :meth:`Recording.stop`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import gossamer.audit.schema as schema
from gossamer.audit import KINDS, Tape, Trail
from gossamer.clock import HybridLogicalClock
from gossamer.node import Node

__all__ = ["Recording"]

_NAMES = {number: name for name, number in KINDS.items()}
_FIELDS = {event.name: event.columns for event in schema.EVENTS}


class Recording:
    """Recorder of one simulated node, whose rows are kept in memory."""

    def __init__(self, node: Node) -> None:
        self.hub = node.broker.hub
        self._tape = Tape(limit=1_000_000, wall=node.clock.wall, clock=HybridLogicalClock())
        self._rows: list[dict[str, Any]] = []
        self.trail = Trail(
            self._tape,
            node=node.name,
            creation=node.runtime.creation,
            hub=self.hub,
            key=b"k" * 16,
            pseudonyms=False,
            filters_of=lambda topic: ["#"],
            soon=asyncio.get_running_loop().call_soon,
        )
        self.trail.sample = 1.0
        self.hub.trail = self.trail

    def told(self, *kinds: str) -> list[dict[str, Any]]:
        """Rows of these kinds of events, or all, in order; one a client."""
        for _, kind, _, _, *values in self._tape.take():
            name = _NAMES[kind]
            row = dict(zip(_FIELDS[name], values, strict=True)) | {"event": name}
            clients = row.get("client")
            for client in clients if isinstance(clients, tuple) else (clients,):
                self._rows.append({**row, "client": client})
        return [row for row in self._rows if not kinds or row["event"] in kinds]

    def messages(self, *kinds: str) -> list[int]:
        """The numbers of the messages of these rows, one for each."""
        return [
            number
            for row in self.told(*kinds)
            for number in range(row["message"], row["message"] + row["count"])
        ]

    def stop(self) -> None:
        """Record no more."""
        self.hub.trail = None
