"""What a client says about queues, in filters and user properties, and what is wrong with it.

A property that is named here comes once, but for ``message-id``; others are the client's own business. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gossamer.errors import UsageError
from gossamer.mqtt.publish.queued import QUEUE
from gossamer.queues import is_start

PREFIX = QUEUE.decode()
LONGEST_GROUP = 64
_SETTLE = ("", "explicit", "puback")
_NO_IN_GROUP = frozenset("/+#")

User = Iterable[tuple[str, str]]


class Wanted(NamedTuple):
    """To be a consumer: ``start`` is where a new consumer group begins, blank where it does not say."""

    queue: str
    group: str
    start: str
    by_puback: bool


class Settled(NamedTuple):
    """Messages that a client settles, in one of its consumer groups; None: whichever has them."""

    group: str | None
    offsets: tuple[int, ...]
    reason: str
    delay: int | None
    """Seconds after which a nacked message comes again; None: as its queue says."""


class BadQueueWordsError(UsageError):
    """A filter or user property that says nothing of a queue that can be done."""

    def __init__(self, what: str, *, got: str, expected: str) -> None:
        self.what = what
        self.got = got
        self.expected = expected
        super().__init__(f"{what}: got {got[:100]!r}, expected {expected}")


def is_of_queues(topic_filter: str) -> bool:
    """Return whether a filter is about queues, though it may be wrong."""
    shared = topic_filter.startswith("$share/") and "/" + PREFIX in topic_filter
    return topic_filter.startswith(PREFIX) or shared


def wanted(topic_filter: str, user: User) -> Wanted:
    """Return what a filter of a SUBSCRIBE asks for. Raises BadQueueWordsError."""
    said = _once(user, ("consumer-group", "offset", "settle"))
    match topic_filter.split("/"):
        case ["$queue", queue, "#"] if queue and "+" not in queue:
            group = said.get("consumer-group", "default")
        case ["$queue", queue, "$group", group] if queue and not {"+", "#"} & set(queue):
            if said.get("consumer-group", group) != group:
                where = f"the consumer group of the filter, {group[:LONGEST_GROUP]!r}, or no such property"
                raise BadQueueWordsError("consumer-group", got=said["consumer-group"], expected=where)
        case _:
            raise BadQueueWordsError(
                "filter",
                got=topic_filter,
                expected="$queue/NAME/# or $queue/NAME/$group/GROUP; the user property consumer-group shares "
                "a queue among clients",
            )
    if not (0 < len(group) <= LONGEST_GROUP and group.isprintable() and not _NO_IN_GROUP & set(group)):
        form = f"a name of 1 to {LONGEST_GROUP} printable characters without /, + and #"
        raise BadQueueWordsError("consumer-group", got=group, expected=form)
    start, settle = said.get("offset", ""), said.get("settle", "")
    if not is_start(start):
        form = "first, last, next, a number, or timestamp: and milliseconds since 1970"
        raise BadQueueWordsError("offset", got=start, expected=form)
    if settle not in _SETTLE:
        raise BadQueueWordsError("settle", got=settle, expected="puback or explicit")
    return Wanted(queue, group, start, settle == "puback")


def settled(queue: str, user: User) -> Settled:
    """Return what a publish that settles messages of a queue names. Raises BadQueueWordsError."""
    user = tuple(user)
    said = _once(user, ("group-id", "reason", "delay"))
    named = [value for name, value in user if name == "message-id"]
    form = f"{queue}:OFFSET, as it came with the message"
    if not named:
        raise BadQueueWordsError("message-id", got="", expected=form)
    offsets: dict[int, None] = {}
    for value in named:
        name, _, number = value.rpartition(":")
        if name != queue or not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise BadQueueWordsError("message-id", got=value, expected=form)
        offsets[int(number)] = None
    delay = said.get("delay", "")
    if delay and not (delay.isascii() and delay.isdecimal() and len(delay) < 10):
        raise BadQueueWordsError("delay", got=delay, expected="whole seconds")
    seconds = int(delay) if delay else None
    return Settled(said.get("group-id"), tuple(offsets), said.get("reason", ""), seconds)


def _once(user: User, names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in user:
        if name in names:
            if name in found:
                raise BadQueueWordsError(name, got=f"{found[name]} and {value}", expected="it once")
            found[name] = value
    return found
