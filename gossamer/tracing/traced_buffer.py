"""A recorder's buffer that keeps a second list: what is noted of messages, for traces.

The recorder may be off; then the second list is all there is. A message that is recorded only because its
publisher wants it traced (its identifier has ``ASIDE``) is not of the recorder's sample and not on the first
list.

Rules: 1. The loop appends, one thread takes from the other end; a deque serves both without a lock.  2. Full
means lost and counted: the messages themselves are none the worse for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import gossamer.audit.schema as schema
from gossamer.audit import KINDS, EventBuffer, Row
from gossamer.mqtt import ASIDE, Message, number_of, origin_of
from gossamer.tracing.context import parent_in
from gossamer.tracing.spans import PARENT

_FIRST_OTHER: int = KINDS[schema.CONNECTED]
"""Kinds below are about messages."""
_NUMBER = 2
ROOM = 50_000
"""Rows that wait for the thread at most."""


class TracedBuffer(EventBuffer):
    """Event buffer with a second list of rows, for traces; each holds ``limit`` rows.

    ``recording`` says whether rows are wanted on the first list.
    """

    __slots__ = ("_ask", "rows", "rows_lost")

    def __init__(self, *, limit: int, wall: Callable[[], float], recording: Callable[[], bool]) -> None:
        super().__init__(limit=limit, wall=wall)
        self._ask = recording
        self.rows: deque[Row] = deque()
        """Rows for the thread."""
        self.rows_lost = 0

    def note(self, kind: int, *values: Any) -> None:
        if kind >= _FIRST_OTHER:
            if self._ask():
                super().note(kind, *values)
            return
        number = values[_NUMBER]
        if self._ask() and not (number is not None and number & ASIDE):
            super().note(kind, *values)
        self._trace(kind, values)

    def note_many(self, kind: int, many: int, *values: Any) -> None:
        if self._ask() and not values[_NUMBER] & ASIDE:
            super().note_many(kind, many, *values)
        self._trace(kind, values)

    # What a recorder asks of messages that may be a publisher's own trace (``FlowRecorder.parents``).

    def wanted(self, message: Message) -> bool:
        """Return whether a message that is not of the sample is to be kept: its publisher traces it."""
        parent = parent_in(message.properties.user)
        return parent is not None and parent.sampled

    def learn(self, message_id: int, message: Message) -> None:
        """A message has this identifier, and perhaps a parent."""
        parent = parent_in(message.properties.user)
        if parent is not None:
            self._trace(PARENT, (*origin_of(message_id), number_of(message_id), parent))

    def _trace(self, kind: int, values: Row) -> None:
        if len(self.rows) >= ROOM:
            self.rows_lost += 1
            return
        self.rows.append((kind, self.now(), *values))

    def now(self) -> int:
        """Microseconds of the wall clock."""
        return int(self._wall() * 1_000_000)
