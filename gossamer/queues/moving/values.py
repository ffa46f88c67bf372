"""What groups are asked about queues that go from one to another."""

from __future__ import annotations

import enum

import msgspec


class MoveOut(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """Have a queue go to another group; ``move`` names this move, and no other. Result: 0."""

    queue: str
    move: str
    to: str


class MoveIn(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """Take a part of a queue that comes from another group. Result: the position of the next part, or -1: all
    of it is there."""

    queue: str
    move: str
    position: int
    data: bytes
    last: bool


class MoveOver(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """Forget a queue that is in its new group, or go on with it here. Result: 0."""

    queue: str
    move: str
    moved: bool


class Presence(enum.IntEnum):
    """Whether a group has a queue."""

    NONE = 0
    HERE = 1
    MOVING = 2
    """It goes to another group, and may be there."""


class MovePart(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """A part of a queue that moves. Answer: :class:`Part`, or None: there is no such move (any more)."""

    move: str
    position: int


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Answer to :class:`MovePart`."""

    data: bytes
    last: bool
