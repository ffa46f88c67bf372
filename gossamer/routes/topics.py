"""Topic names and topic filters: what MQTT allows, and which filter matches which name.

Rules (MQTT 5.0 sections 1.5.4 and 4.7, the same in 3.1.1): 1. Names and filters are 1 to 65,535 bytes of
well-formed UTF-8 without U+0000 and without surrogates; a byte order mark is an ordinary character.
2. Levels are separated by ``/`` and may be empty.  3. ``+`` and ``#`` stand alone in their level, ``#`` only
in the last one; ``a/#`` also matches its parent ``a``.  4. A leading wildcard does not match a name that
starts with ``$``.  5. Names carry no wildcard.  6. Nothing is normalised: ``A`` is not ``a``, ``a/`` is not
``a``.

:func:`matches` is the reference implementation, level by level; the indexes are tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gossamer.errors import WrongValueError
from gossamer.tenants import bare

MAX_BYTES = 65_535
EXCLUSIVE = "$exclusive/"
_SHARE = "$share/"
_RESERVED = (_SHARE.encode(), EXCLUSIVE.encode())
RESERVED_TOPIC = "$share/ and $exclusive/ begin filters, not topics: nobody can subscribe to this one"
"""Message of the error for a topic name that :func:`is_reserved`."""
_SHOWN = 48
_ENUMERATED = 8


class TopicError(WrongValueError):
    """A topic name or filter that MQTT, or this node's limits, do not allow."""

    kind = "topic"

    def __init__(self, topic: bytes | str, expected: str) -> None:
        self.topic = topic
        self.expected = expected
        topic = _readable(topic)
        named = bare(topic) if isinstance(topic, str) else topic
        shown = ascii(named[:_SHOWN]) + ("…" if len(named) > _SHOWN else "")
        super().__init__(f"{self.kind} {shown}: expected {expected}")


class InvalidTopicName(TopicError):  # noqa: N818 - reads as the protocol does
    """The name of a PUBLISH or a will that cannot be routed."""

    kind = "topic name"


class InvalidTopicFilter(TopicError):  # noqa: N818 - reads as the protocol does
    """The filter of a SUBSCRIBE or UNSUBSCRIBE that cannot be routed."""

    kind = "topic filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """Limits of a node below those of the protocol; ``max_bytes`` counts encoded bytes.

    ``inside``: names may be those of a tenant (see :mod:`gossamer.tenants`), whose root does not count.
    """

    max_bytes: int = MAX_BYTES
    max_levels: int = 128
    inside: bool = False


DEFAULT_LIMITS = TopicLimits()


class SharedFilter(NamedTuple):
    """A filter and the ``$share`` group that subscribes to it; ``group`` is None for an ordinary one."""

    group: str | None
    filter: str


def parse_name(raw: bytes | str, limits: TopicLimits = DEFAULT_LIMITS) -> str:
    """Check a topic name and return it as text.

    Raises:
        InvalidTopicName: it is not a topic name.
    """
    text = _decode(raw, limits, InvalidTopicName)
    if "+" in text or "#" in text:
        raise InvalidTopicName(raw, "no wildcard (+ or #) in a topic name")
    return text


def is_reserved(name: bytes) -> bool:
    """Return whether a topic name begins as only filters may, so that no client could subscribe to it."""
    return name[:1] == b"$" and name.startswith(_RESERVED)


def parse_filter(raw: bytes | str, limits: TopicLimits = DEFAULT_LIMITS) -> str:
    """Check a topic filter, shared or not, and return it as text.

    Raises:
        InvalidTopicFilter: it is not a topic filter.
    """
    text = _decode(raw, limits, InvalidTopicFilter)
    body = text
    if text.startswith((_SHARE, EXCLUSIVE)):
        body = body_of(text)
        if text.startswith(EXCLUSIVE) and (not body or body.startswith(_SHARE)):
            raise InvalidTopicFilter(raw, "$exclusive/<filter>, of no share group")
    if "+" in body or "#" in body:
        last = body.count("/")
        for position, level in enumerate(body.split("/")):
            if "#" in level and (level != "#" or position != last):
                raise InvalidTopicFilter(raw, "# alone in the last level")
            if "+" in level and level != "+":
                raise InvalidTopicFilter(raw, "+ alone in its level")
    return text


def split_shared(text: str) -> SharedFilter:
    """Split ``$share/group/filter``.

    Raises:
        InvalidTopicFilter: it starts with ``$share/`` but has no valid group, or no filter.
    """
    if not text.startswith(_SHARE):
        return SharedFilter(None, text)
    group, slash, body = text[len(_SHARE) :].partition("/")
    if not slash or not group or not body:
        raise InvalidTopicFilter(text, "$share/<group>/<filter>, with neither part empty")
    if "+" in group or "#" in group:
        raise InvalidTopicFilter(text, "no wildcard (+ or #) in the name of a share group")
    return SharedFilter(group, body)


def body_of(text: str) -> str:
    """Return the part of a valid filter that matches: without ``$share/group/`` and ``$exclusive/``."""
    if text[:1] != "$":
        return text
    if text.startswith(EXCLUSIVE):
        return text[len(EXCLUSIVE) :]
    return split_shared(text).filter


def is_wildcard(topic_filter: str) -> bool:
    """Return whether an ordinary valid filter can match more than one topic name."""
    return "+" in topic_filter or "#" in topic_filter


def matches(topic_filter: str, name: str) -> bool:
    """Return whether an ordinary valid filter matches a valid topic name."""
    wanted = topic_filter.split("/")
    levels = name.split("/")
    if name.startswith("$") and wanted[0] in ("+", "#"):
        return False
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    return all(want in ("+", level) for want, level in zip(wanted, levels, strict=False))


def filters_matching(name: str) -> Iterator[str]:
    """Yield every filter that could match a topic name: twice as many with each level.

    Of names with more than :data:`_ENUMERATED` levels only those without ``+``.
    """
    levels = name.split("/")
    hidden = name.startswith("$")
    heads = [""]
    for depth, level in enumerate(levels):
        if depth or not hidden:
            yield from (f"{head}#" for head in heads)
        words = (level,) if (hidden and not depth) or len(levels) > _ENUMERATED else (level, "+")
        heads = [f"{head}{word}/" for head in heads for word in words]
    for head in heads:
        yield head[:-1]
        yield f"{head}#"


def _readable(topic: bytes | str) -> bytes | str:
    """Return a topic as text, or if it is not UTF-8 unchanged."""
    try:
        return topic.decode() if isinstance(topic, bytes) else topic
    except UnicodeDecodeError:
        return topic


def _decode(raw: bytes | str, limits: TopicLimits, error: type[TopicError]) -> str:
    if isinstance(raw, str):
        # Text that came through another door (an actor, the API) may hold lone surrogates.
        try:
            size = len(raw) if raw.isascii() else len(raw.encode())
        except UnicodeEncodeError:
            raise error(raw, "no surrogates (U+D800 to U+DFFF)") from None
        text = raw
    else:
        size = len(raw)
        try:
            text = raw.decode()
        except UnicodeDecodeError as fault:
            raise error(raw, f"well-formed UTF-8, which breaks at byte {fault.start}") from None
    named = text
    if limits.inside and "\0" in text:
        named = bare(text)
        size = max(size - len(text) + len(named), size - MAX_BYTES + limits.max_bytes)
    if not 1 <= size <= limits.max_bytes:
        raise error(raw, f"1 to {limits.max_bytes} bytes, got {size}")
    if "\0" in named:
        raise error(raw, "no U+0000")
    if named.count("/") >= limits.max_levels:
        raise error(raw, f"at most {limits.max_levels} levels, got {named.count('/') + 1}")
    return text
