"""Queues that go from one replication group to another, as the machines of both see it.

::

    source                 MoveOut: still ────────── MovePart ─────────▶ MoveOver: gone
    target                          MoveIn 0, MoveIn 1, … MoveIn last: there

Rules: 1. From ``MoveOut`` on the queue stands still, with its dead letters and all that consumers have: what
it is asked is refused, to be asked again where it is then. So each part is the same whoever reads it, and
whenever.  2. Parts go by their position, and are taken once; the last one makes the queue in its new group,
in one step.  3. The source forgets it after that: at no time do two groups serve it.  4. Times are a group's
own, and are shifted by what the two differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gossamer.queues.moving.values import MoveIn, MoveOut, Part, Presence
from gossamer.queues.replicated.fates import Fates
from gossamer.queues.replicated.queue import Queue
from gossamer.queues.replicated.state import Entry, Move, QueueState
from gossamer.queues.values import (
    Why,
    encode,
)

PART = 256 * 1024
"""Bytes of a part: it is an entry of a log."""
ADOPTED = -1
"""In place of the position of the next part: all of it is there."""
_REMEMBERED = 1000
_DIGEST = 16


class Staged(msgspec.Struct, array_like=True):
    """What has come of a queue so far."""

    move: str
    size: int = 0
    parts: list[bytes] = msgspec.field(default_factory=list)


class _Packed(msgspec.Struct, array_like=True, frozen=True):
    now: int
    queues: list[QueueState]


_packed = msgspec.msgpack.Decoder(_Packed).decode


def begin(queues: Mapping[str, Queue], asked: MoveOut, now: int) -> int | Why:
    """Have a queue stand still, with its dead letters; return why not, if so."""
    queue = queues[asked.queue]
    if (known := queue.state.move) is not None:
        return 0 if known.to == asked.to and known.queue == asked.queue else Why.MOVING
    letters = queue.config.dlq.queue_of(asked.queue)
    for name, other in queues.items():
        # Also of a queue that keeps none any more: its former ones are there.
        if name != asked.queue and other.config.dlq.queue_of(name) in (asked.queue, letters):
            return Why.SHARED
    move = Move(asked.move, asked.queue, asked.to, now)
    for name in {asked.queue, letters} & queues.keys():
        queues[name].state.move = move
    return 0


def presence_of(queue: Queue | None) -> Presence:
    """Return whether a group has a queue, as it has found it."""
    if queue is None:
        return Presence.NONE
    return Presence.HERE if queue.state.move is None else Presence.MOVING


def moving(queues: Mapping[str, Queue]) -> list[Move]:
    """Return the moves that are under way."""
    return [one.state.move for name, one in queues.items() if one.state.move and one.state.move.queue == name]


def over(queues: dict[str, Queue], move: str, *, moved: bool) -> None:
    """Forget what is in its new group, or go on here."""
    for name, queue in list(queues.items()):
        if queue.state.move is not None and queue.state.move.id == move:
            queue.state.move = None
            if moved:
                del queues[name]


class Packing:
    """Reads queues that stand still, part by part. No state: what it has is the same at every replica."""

    def __init__(self) -> None:
        self._move = ""
        self._data = b""

    def part(self, queues: Iterable[Queue], move: str, position: int) -> Part | None:
        """Return the part at a position; None: nothing moves so."""
        if move != self._move:
            states = [one.state for one in queues if one.state.move is not None and one.state.move.id == move]
            at = [one.move.at for one in states if one.move is not None]
            if not at:
                return None
            body = encode(_Packed(at[0], states))
            self._move, self._data = move, _digest(body) + body
        data = self._data[position : position + PART]
        return Part(data, last=position + len(data) == len(self._data))

    def clear(self) -> None:
        """Let what was read go."""
        self._move, self._data = "", b""


class Arrivals:
    """Parts of queues that come, and which moves have arrived; part of the state."""

    def __init__(self, staged: dict[str, Staged] | None = None, adopted: list[str] | None = None) -> None:
        self.staged = staged or {}
        self.adopted = adopted or []

    def take(self, queues: dict[str, Queue], asked: MoveIn, now: int, fates: Fates) -> int | Why:
        """Take a part; return the position of the next, or :data:`ADOPTED`, or why it is refused."""
        if asked.move in self.adopted:
            return ADOPTED
        if asked.queue in queues:
            self.staged.pop(asked.queue, None)
            return Why.EXISTS
        staged = self.staged.get(asked.queue)
        if staged is None or staged.move != asked.move:
            staged = self.staged[asked.queue] = Staged(asked.move)
        if asked.position != staged.size or not asked.data:
            return staged.size
        staged.parts.append(asked.data)
        staged.size += len(asked.data)
        if not asked.last:
            return staged.size
        del self.staged[asked.queue]
        data = b"".join(staged.parts)
        if _digest(data[_DIGEST:]) != data[:_DIGEST]:
            # It cannot be; were it applied, no replica could. It comes again from the beginning.
            return 0
        self.adopted = [*self.adopted, asked.move][-_REMEMBERED:]
        packed = _packed(data[_DIGEST:])
        for state in packed.queues:
            _adopt(queues, state, now - packed.now, fates)
        return ADOPTED

    def abandon(self, move: str) -> None:
        """Forget what has come by a move that is over."""
        self.staged = {queue: one for queue, one in self.staged.items() if one.move != move}


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _adopt(queues: dict[str, Queue], state: QueueState, shift: int, fates: Fates) -> None:
    settings: dict[str, Any] = msgspec.json.decode(state.defined)
    if state.move is not None:
        settings["replication"] = {**settings.get("replication", {}), "group": state.move.to}
    state.defined, state.move = msgspec.json.encode(settings), None
    state.idle_since += shift
    state.entries = {offset: _shifted(entry, shift) for offset, entry in state.entries.items()}
    for group in state.groups.values():
        group.shift(shift)
    if state.name in queues:
        # Dead letters of this name, which another queue of this group had made.
        for entry in state.entries.values():
            queues[state.name].bury(entry)
    else:
        queues[state.name] = Queue(state, fates)


def _shifted(entry: Entry, shift: int) -> Entry:
    expires = max(entry.expires + shift, 1) if entry.expires else 0
    return msgspec.structs.replace(entry, since=entry.since + shift, expires=expires)
