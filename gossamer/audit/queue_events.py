"""What happens to messages in queues, as rows: what jobs need to prove that none was lost or done twice.

An event is told once, by the node that it belongs to: a message that is in its queue by its publisher's, what
a consumer was given and says of it by the consumer's. What nobody asked for, such as a dead letter or what a
limit discards, is told by the node that leads the queue's replication group as it applies the entry. A node
that dies takes its last tenth of a second along, and that is a hole; its successor as leader may tell of an
entry again, with the same ``entry``.

Rule: queues are not sampled. Whether a message was passed over is seen by those around it alone.
"""

from __future__ import annotations

from collections.abc import Callable

import gossamer.audit.schema as schema
from gossamer.audit.deliveries import name_of
from gossamer.audit.event_buffer import KINDS, EventBuffer
from gossamer.mqtt import is_recorded
from gossamer.queues import Fate

_APPENDED = KINDS[schema.APPENDED]
_GIVEN = KINDS[schema.GIVEN]
_SETTLED = KINDS[schema.SETTLED]
_NOBODY = (None, None, None, 1)


class QueueEvents:
    """Recorder of queues; ``alias`` returns the name of a client in rows."""

    def __init__(self, buffer: EventBuffer, alias: Callable[[str], str]) -> None:
        self._note = buffer.note
        self._alias = alias

    def appended(self, queue: str, offset: int, key: str, size: int, client: str, message_id: int) -> None:
        """A quorum has a message of this node's publisher; blank: of a program."""
        # Only what queues capture has an identifier: all else goes nowhere but there.
        name = (*name_of(message_id), 1) if is_recorded(message_id) else _NOBODY
        publisher = self._alias(client) if client else None
        self._note(_APPENDED, *name, key, size, publisher, queue, offset, None, None, None)

    def given(self, queue: str, group: str, offset: int, attempt: int, client: str) -> None:
        """A consumer of this node was given a message."""
        self._note(_GIVEN, queue, group, offset, attempt, self._alias(client))

    def settled(self, queue: str, group: str, offset: int, attempt: int, client: str, outcome: str) -> None:
        """What came of what a consumer of this node says of a message."""
        self._note(_SETTLED, queue, group, offset, attempt, self._alias(client), outcome)

    def gone(self, index: int, fates: list[Fate]) -> None:
        """An entry of a replication group that this node leads did this."""
        for event, queue, group, offset, attempt, reason, key in fates:
            if event == schema.APPENDED:
                self._note(_APPENDED, *_NOBODY, key, None, None, queue, offset, reason, index, group)
            else:
                self._note(KINDS[event], queue, group, offset, attempt, reason, index)
