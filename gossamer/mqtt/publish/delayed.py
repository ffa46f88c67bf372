"""Delayed messages: a publish to ``$delayed/{seconds}/{topic}`` is a publish to ``topic`` so much later.

The node that takes the message keeps it, on disc where it has one, and publishes it when it is due, in the
publisher's name. A node that is down then publishes it when it is back and has had time to find its cluster.
QoS 1 and 2 are acknowledged once the message is on disc (without a disc: once it is taken), not when due.

Rules: 1. Whole seconds from 0 to 4,294,967. A name with any other delay, or no valid topic behind it, is
refused as a topic name (0x90); a message beyond the limit is dropped, counted, and in MQTT 5.0 acknowledged
with 0x97.  2. The ACL is asked about the topic behind the delay.  3. Expiry counts from the publish; RETAIN
takes effect when it is due.  4. Messages due in one moment are published in the order in which they came.

Rejected: a replicated table, so that another node might publish for one that is down: two nodes that do not
see each other would both publish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import structlog

from gossamer.errors import GossamerError, UsageError
from gossamer.mnesia_like import Journal
from gossamer.mqtt.flow.commits import JournalWriter, Soon
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.messages.records import read_record, record_of
from gossamer.routes import Route, TopicLimits, is_reserved, parse_name

log = structlog.get_logger(__name__)

DELAYED = b"$delayed/"
LONGEST = 4_294_967
BAD_DELAY = f"expected $delayed/SECONDS/TOPIC with whole seconds up to {LONGEST:,}"
"""Message of the error for a topic name that :func:`is_bad_delay`."""
SETTLE = 10.0
"""Seconds that restored messages wait at least: a node that was just started may have no routes yet."""

_INSIDE = TopicLimits(inside=True)
# Route of a delayed topic: a plan with which the read loop leaves it to the handlers.
UNROUTED = Route((), (), 0, plan=SimpleNamespace(groups=(None,)))


def delayed_topic(name: str) -> tuple[int, str] | None:
    """Return seconds and topic of ``$delayed/{seconds}/{topic}``; None: it is no such name."""
    _, _, rest = name.partition("/")
    seconds, _, topic = rest.partition("/")
    # Digits of other scripts are digits to Python.
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) <= 10) or int(seconds) > LONGEST:
        return None
    try:
        parse_name(topic, _INSIDE)
    except UsageError:
        return None
    if is_reserved(topic.encode()):
        return None
    return None if topic.startswith(DELAYED.decode()) else (int(seconds), topic)


def is_bad_delay(name: bytes) -> bool:
    """Return whether a topic name begins with ``$delayed/`` and is not valid."""
    return name.startswith(DELAYED) and delayed_topic(name.decode(errors="replace")) is None


class Delayed:
    """Store and schedule of delayed messages, at most ``limit`` of them.

    ``dropped(reason)`` counts one that is dropped.
    """

    def __init__(
        self,
        *,
        wheel: Wheel,
        now: Callable[[], float],
        wall: Callable[[], float],
        dropped: Callable[[str], None],
        limit: int,
    ) -> None:
        self._wheel = wheel
        self._now = now
        self._wall = wall
        self.publish: Callable[..., object] = lambda _message, **_: None
        """Routes a message that is due, ``publish(message, publisher=…)``."""
        self._dropped = dropped
        self._limit = limit
        self._journal: JournalWriter | None = None
        self._serial = 0
        self.count = 0
        """Number of messages that wait."""

    @property
    def restored(self) -> bool:
        """Return whether messages are kept on disc."""
        return self._journal is not None

    @property
    def full(self) -> bool:
        """Return whether the limit is reached."""
        return self.count >= self._limit

    def take(self, message: Message, publisher: str) -> tuple[ForwarderLike, ...]:
        """Keep a message to ``$delayed/…``; return the peers that must have it before it is acknowledged."""
        found = delayed_topic(message.topic.decode(errors="replace"))
        if found is None:
            self._dropped("bad_delay")
            return ()
        if self.full:
            self._dropped("too_many_delayed")
            return ()
        seconds, topic = found
        message.topic = topic.encode()
        self._serial += 1
        key = self._serial.to_bytes(8)
        due = self._now() + seconds
        if self._journal is not None:
            row = [self._wall() + seconds, publisher, record_of(message, self._now())]
            self._journal.write(key, row)
        self._keep(key, due, message, publisher)
        return () if self._journal is None else (self._journal,)

    def restore(
        self,
        journal: Journal,
        rows: Mapping[Any, Any],
        *,
        soon: Soon,
    ) -> int:
        """Keep messages in ``journal`` from now on, and restore those in it; return how many wait. ``soon``
        runs a function in a later turn of the loop."""
        self._journal = JournalWriter(journal, soon=soon)
        for key, (wall, publisher, record) in sorted(rows.items(), key=lambda item: (item[1][0], item[0])):
            try:
                message, _ = read_record(record, 0, len(record), self._now())
            except GossamerError as error:
                log.warning("delayed_message_unreadable", error=str(error))
                self._journal.write(key, None)
                continue
            self._serial = max(self._serial, int.from_bytes(key))
            self._keep(key, self._now() + max(SETTLE, wall - self._wall()), message, publisher)
        return self.count

    def _keep(self, key: bytes, due: float, message: Message, publisher: str) -> None:
        self.count += 1
        self._wheel.at(due, partial(self._due, key, message, publisher))

    def _due(self, key: bytes, message: Message, publisher: str, now: float) -> None:
        self.count -= 1
        if self._journal is not None:
            self._journal.write(key, None)
        if message.expires_at is not None and message.expires_at <= now:
            self._dropped("expired")
            return
        self.publish(message, publisher=publisher)
