"""What a simulated node records, read back as rows.

Everything is kept, from when it is made until :meth:`Recording.stop`.
"""

from __future__ import annotations

from typing import Any

from mqtt.recording import buffer_of, numbers_of, recorder_on, take

from gossamer.node import Node

__all__ = ["Recording"]


class Recording:
    """Recorder of one simulated node, whose rows are kept in memory."""

    def __init__(self, node: Node) -> None:
        self.fanout = node.broker.fanout
        self._buffer = buffer_of(node.clock, limit=1_000_000)
        self._rows: list[dict[str, Any]] = []
        self.recorder = recorder_on(self._buffer, self.fanout, node.name, creation=node.runtime.creation)

    def told(self, *kinds: str) -> list[dict[str, Any]]:
        """Rows of these kinds of events, or all, in order; one a client."""
        self._rows += take(self._buffer)
        return [row for row in self._rows if not kinds or row["event"] in kinds]

    def messages(self, *kinds: str) -> list[int]:
        """The numbers of the messages of these rows, one for each."""
        return [number for row in self.told(*kinds) for number in numbers_of(row)]

    def stop(self) -> None:
        """Record no more."""
        self.fanout.recorder = None
