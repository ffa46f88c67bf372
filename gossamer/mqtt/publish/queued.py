"""Messages into queues: a publish to ``$queue/NAME/KEY`` is one into that queue, and one to a topic that a
queue captures goes into the queue besides.

Rules: 1. A message of QoS 1 or 2 is acknowledged once a quorum has it, and refused where the queue refuses it
(``Message.refusal``).  2. A message has the properties of its PUBLISH in the queue; its key is what stands
behind the name of the queue, or the topic where it was captured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import SimpleNamespace

import msgspec

from gossamer.errors import GossamerError
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.flow.commits import Until
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.queues import (
    FewReplicasError,
    NotLeaderError,
    QueueFullError,
    Queues,
    TooLargeError,
    UnknownQueueError,
)
from gossamer.routes import Route, matches

QUEUE = b"$queue/"
BAD_QUEUE = "expected $queue/NAME/KEY, whose key may be empty and does not begin with $"
QUEUED = Route((), (), 0, plan=SimpleNamespace(groups=(None,), nobody=False, sessions=()))
"""Route of topics of queues: a plan with which the read loop leaves them to the handlers."""

_decode = msgspec.msgpack.Decoder(Properties).decode
_encode: Callable[[Properties], bytes] = msgspec.msgpack.Encoder().encode


@lru_cache(256)
def queue_and_key(topic: bytes) -> tuple[str, str] | None:
    """Return the queue and the key of a topic ``$queue/NAME/KEY``; None: it is none."""
    _, _, rest = topic.decode(errors="replace").partition("/")
    name, _, key = rest.partition("/")
    if not name or key.startswith("$") or "+" in rest or "#" in rest:
        return None
    return name, key


def properties_of(data: bytes) -> Properties:
    """Return the properties of a message in a queue."""
    return _decode(data) if data else NONE


def data_of(properties: Properties) -> bytes:
    """Return the properties of a message as they are in a queue."""
    return b"" if properties is NONE else _encode(properties)


def refusal_of(error: GossamerError) -> tuple[ReasonCode, str]:
    """Return the reason code and the reason with which a message for a queue is refused."""
    if isinstance(error, QueueFullError | TooLargeError):
        return ReasonCode.QUOTA_EXCEEDED, str(error)
    if isinstance(error, UnknownQueueError):
        return ReasonCode.TOPIC_NAME_INVALID, str(error)
    if isinstance(error, NotLeaderError | FewReplicasError):
        # Nothing was done, and whose fault it is no code of PUBACK says: 0x9c is none.
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error)
    return ReasonCode.UNSPECIFIED_ERROR, str(error)


class IntoQueue:
    """A queue as one of a message's peers."""

    def __init__(self, queue: str, append: Callable[[Callable[[bool], object]], object]) -> None:
        self.peer = f"queue {queue}"
        self._append = append

    def append(self, _record: bytes) -> None:
        self._append(lambda _safe: None)

    def append_acked(self, _record: bytes, on_safe: Callable[[bool], None]) -> None:
        self._append(on_safe)


def answered(peer: ForwarderLike) -> ForwarderLike:
    """Return a peer for which a refusal is an answer like another: the client is told."""
    return Until(peer.peer, lambda record, on_safe: peer.append_acked(record, lambda _done: on_safe(True)))


class QueuePublishing:
    """Puts messages into queues. ``changed`` is called when other topics are captured than before."""

    def __init__(self, queues: Queues, *, now: Callable[[], float], changed: Callable[[], object]) -> None:
        self._queues = queues
        self._now = now
        self._changed = changed
        self._captures: list[tuple[str, str]] = []
        queues.on_captures = self._capture
        self._capture(queues.captures)

    def _capture(self, captures: Mapping[str, tuple[str, ...]]) -> None:
        pairs = sorted((queue, one) for queue, filters in captures.items() for one in filters)
        if pairs != self._captures:
            self._captures = pairs
            self._changed()

    def captured_by(self, topic: bytes) -> tuple[str, ...]:
        """Return the queues that have what is published to a topic, too."""
        if not self._captures:
            return ()
        name = topic.decode()
        return tuple(dict.fromkeys(queue for queue, one in self._captures if matches(one, name)))

    def take(self, message: Message) -> tuple[ForwarderLike, ...]:
        """Return the peer of a message to a topic of a queue."""
        found = queue_and_key(message.topic)
        return () if found is None else (self.into(*found, message),)

    def capture(self, queues: tuple[str, ...], message: Message) -> tuple[ForwarderLike, ...]:
        """Return the peers of a message that queues capture."""
        return tuple(self.into(queue, message.topic.decode(), message, captured=True) for queue in queues)

    def into(self, queue: str, key: str, message: Message, *, captured: bool = False) -> ForwarderLike:
        """Return the peer that puts a message into a queue."""

        def append(on_safe: Callable[[bool], object]) -> None:
            def done(result: int | GossamerError) -> None:
                if isinstance(result, GossamerError):
                    message.refusal = refusal_of(result)
                on_safe(message.refusal is None)

            expiry = None if message.expires_at is None else max(message.expires_at - self._now(), 0.001)
            self._queues.append(
                queue,
                bytes(message.payload),
                done,
                key=key,
                properties=data_of(message.properties),
                expiry=expiry,
                client=getattr(message.publisher, "client_id", ""),
                message_id=message.id,
                captured=captured,
            )

        return IntoQueue(queue, append)
