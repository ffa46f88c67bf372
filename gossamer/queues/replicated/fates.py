"""What becomes of messages that no consumer has settled: gathered for the flow recorder, entry by entry.

Rules: 1. Nothing of this is state, and nothing is gathered unless somebody listens.  2. All replicas apply
the same entries, so the one that leads tells; one that applies an entry again tells the same, with the index
of the entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from gossamer.errors import GossamerError
from gossamer.queues.errors import NotDoneError, NotHeldError
from gossamer.queues.values import Outcome

APPENDED = "appended"
BURIED = "buried"
DISCARDED = "discarded"

LIMIT, EXPIRED, SUPERSEDED, NOT_KEPT = "limit", "expired", "superseded", "not_kept"
"""Why one message was discarded; the last for one consumer group alone, whose dead letters are not kept."""
DEAD_LETTER, REPLAYED = "dead_letter", "replayed"
"""Why one came into a queue; by the second it left that of dead letters."""
PURGED, DELETED, GROUP_DROPPED = "purged", "deleted", "group_dropped"
"""Why all messages up to an offset were."""


class Fate(NamedTuple):
    """What became of a message: a dead letter came into a queue, or it was buried or discarded."""

    event: str
    queue: str
    group: str | None
    """Consumer group for which that is so; None: all."""
    offset: int
    attempt: int | None
    reason: str
    key: str | None
    """Of one that came."""


Sink = Callable[[int, list[Fate]], object]
"""``sink(index, fates)``: what became of messages in the entry of this index."""


class Fates:
    """Fates of the entry that is being applied; ``rows`` is None while nobody listens."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[Fate] | None = None

    def note(
        self,
        event: str,
        queue: str,
        offset: int,
        reason: str,
        group: str | None = None,
        attempt: int = 0,
        *,
        key: str | None = None,
    ) -> None:
        """Note one, if somebody listens."""
        if self.rows is not None:
            self.rows.append(Fate(event, queue, group, offset, attempt or None, reason, key))


class QueueRecorderLike(Protocol):
    """Flow recorder as queues report to it (``gossamer.audit``)."""

    def appended(self, queue: str, offset: int, key: str, size: int, client: str, message_id: int, /) -> None:
        """A quorum has a message of this node's publisher."""

    def given(self, queue: str, group: str, offset: int, attempt: int, client: str, /) -> None:
        """A consumer of this node was given a message."""

    def settled(
        self, queue: str, group: str, offset: int, attempt: int, client: str, outcome: str, /
    ) -> None:
        """A quorum has said what comes of what a consumer of this node says of a message."""

    def gone(self, index: int, fates: list[Fate], /) -> None:
        """An entry of a replication group that this node leads did this."""


def outcome_of(outcome: Outcome, result: int | GossamerError) -> str:
    """Return what came of what a consumer says: ``ack``, ``nack``, ``reject``; ``late`` where somebody else
    has the message by now; ``unknown`` where no quorum has answered, and ``refused``."""
    if not isinstance(result, GossamerError):
        return outcome.name.lower()
    if isinstance(result, NotHeldError):
        return "late"
    return "unknown" if isinstance(result, NotDoneError) and result.unknown else "refused"
