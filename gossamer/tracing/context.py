"""Identity of messages in traces: identifiers that every node works out for itself.

A message that is recorded has a name that travels with it (``mqtt.messages``): its origin, a life of that, a
number. Its trace and its spans are hashes of that name, so nodes agree on them, parents and children are
found without a table, and nothing more travels.

A publisher may say that its message belongs to a trace already: ``traceparent`` of W3C Trace Context, as a
user property of MQTT 5. Then that trace is taken, and its span is the parent.

Rule: a ``traceparent`` that is not as the specification has it, or comes twice, counts as none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

TRACEPARENT = "traceparent"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED = 1
_MASK = 2**64 - 1


class Name(NamedTuple):
    """A message: the node that took it, which life of that, and its number there."""

    origin: str
    creation: int
    number: int

    def __str__(self) -> str:
        return f"{self.origin}/{self.creation}/{self.number}"


class Parent(NamedTuple):
    """The span of the publisher that a message belongs to."""

    trace: int
    span: int
    sampled: bool


def parse_traceparent(text: str) -> Parent | None:
    """Parse a ``traceparent``; None where it is not one."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    # 00 has four parts; later versions may have more. ff is forbidden, and so are zeros.
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return None
    return Parent(int(trace, 16), int(span, 16), bool(int(flags, 16) & _SAMPLED))


def parent_in(user: Iterable[tuple[str, str]]) -> Parent | None:
    """The parent that user properties name."""
    found = [value for key, value in user if key == TRACEPARENT]
    return parse_traceparent(found[0]) if len(found) == 1 else None


def trace_id(name: Name) -> int:
    """The trace of a message without a parent; never 0."""
    return _hashed(16, name, "trace") or 1


def span_id(name: Name, *what: str) -> int:
    """The span of ``what`` happened to a message; never 0."""
    return _hashed(8, name, *what) or 1


def picks(number: int, share: float) -> bool:
    """Return whether message ``number`` of its origin is among ``share`` of all."""
    if share >= 1.0:
        return True
    # Splitmix64, so that neighbours are not all kept or all left.
    mixed = (number * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & _MASK
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
    return (mixed ^ mixed >> 31) < share * 2**64


def _hashed(size: int, name: Name, *what: str) -> int:
    text = "\0".join((name.origin, str(name.creation), str(name.number), *what))
    return int.from_bytes(blake2b(text.encode(), digest_size=size, person=b"gossamer-trace").digest())
