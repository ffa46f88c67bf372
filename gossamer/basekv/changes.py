"""What changes ranges themselves: requests in their logs, beside batches of writes.

::

    split      Split at one range: it keeps the keys below the border, and a new group begins with the rest
    merge      left   Expect ─────────── Absorb part by part, the last has its keys ── Settle
               right         Seal ─────────────────────────────────────────── Retire
    undone     left   Expect … Release ─────────── Settle
               right         Seal ─────── Unseal

Rules: 1. Each change names the version of its range as its caller knows it, or the *merge*, which has a name
of its own: whoever goes on with it, or does a step twice, does no harm.  2. A range that changes raises its
version above that of every range that had one of its keys.  3. The left one keeps what the merge has come to
until the right one has followed, and takes part in nothing else meanwhile.  4. A sealed range answers
:class:`Busy` to everything: the other may have its keys already.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from gossamer.basekv.values import RangeInfo

TOGETHER = 17
"""Keys that agree in so many bytes at their beginning are in one range at any time, so that they can be
written at once: a border has no more."""
PART = 128 * 1024
"""Bytes of a range that one entry carries."""
_MARK = b"\xc1"
"""First byte of a change, with which no msgpack begins."""


class Split(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Begin range ``number`` with the keys from ``key`` on. Answer: :class:`.values.Moved`, or
    :class:`.values.Ruled`."""

    version: int
    key: bytes
    number: int


class Expect(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """To the left one: take over range ``number``, which begins with ``start``."""

    version: int
    merge: bytes
    number: int
    start: bytes
    right_version: int


class Seal(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """To the right one: do nothing more, since range ``into`` takes over."""

    version: int
    merge: bytes
    into: int


class Absorb(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """To the left one: take a part of the right one. Answer: :class:`.values.Ruled` with the position of the
    next part; :class:`.values.Moved`: it has all."""

    merge: bytes
    position: int
    data: bytes
    last: bool


class Release(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """To the left one: do not take it over. Answer: :class:`.values.Moved` if it has."""

    merge: bytes


class Unseal(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """To the right one: go on, and let nobody seal it for that merge any more."""

    merge: bytes


class Retire(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """To the right one: ``range`` has its keys."""

    merge: bytes
    range: RangeInfo


class Settle(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """To the left one: the right one has followed."""

    merge: bytes


Change: TypeAlias = Split | Expect | Seal | Absorb | Release | Unseal | Retire | Settle


class Phase(enum.IntEnum):
    """How far a merge is at its left range."""

    EXPECTS = 0
    HAS = 1
    """All is there; the right one is to retire."""
    RELEASED = 2
    """It is given up; the right one is to go on."""


class Merging(msgspec.Struct, array_like=True):
    """A merge at its left range: the right one, and the parts of it that came."""

    merge: bytes
    number: int
    right_version: int
    phase: Phase = Phase.EXPECTS
    data: bytearray = msgspec.field(default_factory=bytearray)


class Sealed(msgspec.Struct, array_like=True):
    """A merge at its right range; ``by``: the range that has its keys now."""

    merge: bytes
    into: int
    by: RangeInfo | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Change] = msgspec.msgpack.Decoder(Change).decode


def encoded(change: Change) -> bytes:
    """Return a change as a request."""
    return _MARK + _encode(change)


def decoded(request: bytes) -> Change | None:
    """Return the change that a request is; None: it is a batch."""
    return _decode(request[1:]) if request[:1] == _MARK else None


def border_of(key: bytes) -> bytes:
    """Return the border at or below a key at which a range can be split."""
    return key[:TOGETHER]
