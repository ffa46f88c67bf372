"""Questions to replication groups, for any process of a node. All raise NotReadyError where no quorum of a
group can be asked in time."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from gossamer.errors import GossamerError
from gossamer.queues.moving.values import MovePart, Part, Presence
from gossamer.queues.port import KIND, kind_of
from gossamer.queues.stats import GroupLag, QueueDetails, QueueStats, Trouble
from gossamer.queues.values import (
    Buries,
    Checkpoint,
    Has,
    Held,
    HeldAnswer,
    Lags,
    ListQueues,
    Message,
    Peek,
    Question,
    Saved,
    Show,
    Topics,
    Watch,
    decoder_of,
    encode,
)
from gossamer.raft import RAFT, NotReadyError, read
from gossamer.supervisor import call

log = structlog.get_logger(__name__)

_STALE = 5.0
"""Age in seconds that an answer may have where nothing hangs on it: this node's replica answers, if its state
is no older, and nobody else is asked."""
_MOVE_TIMEOUT = 30.0
"""Seconds in which a queue is expected in the group that it goes to."""
_MOVE_RETRY = 0.1
_decode_details = decoder_of(QueueDetails | None)
_decode_stats = decoder_of(list[QueueStats])
_decode_lags = decoder_of(list[GroupLag])
_decode_troubles = decoder_of(list[Trouble])
_decode_messages = decoder_of(list[Message] | None)
_decode_checkpoint = decoder_of(Checkpoint | None)
_decode_presence = decoder_of(Presence)
_decode_part = decoder_of(Part | None)
_decode_name = decoder_of(str)
_decode_topics = decoder_of(dict[str, tuple[str, ...]])
_decode_held = decoder_of(HeldAnswer)


async def groups() -> list[str]:
    """Return the replication groups of the cluster."""
    kinds: list[str] = await call(RAFT, "kinds")
    return [kind.removeprefix(KIND) for kind in kinds if kind.startswith(KIND)]


async def queues_in(group: str) -> list[QueueStats]:
    """Return the queues of a group, as of some seconds ago at most."""
    found: list[QueueStats] = _decode_stats(await _ask(group, ListQueues(), max_staleness=_STALE))
    return found


async def lags_in(group: str, limit: int) -> list[GroupLag]:
    """Return how far consumer groups of a replication group are behind, as of some seconds ago at most."""
    found: list[GroupLag] = _decode_lags(await _ask(group, Lags(limit), max_staleness=_STALE))
    return found


async def troubles_in(group: str) -> list[Trouble]:
    """Return what is wrong with queues of a group, as of some seconds ago at most."""
    found: list[Trouble] = _decode_troubles(await _ask(group, Watch(), max_staleness=_STALE))
    return found


async def topics() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the topic filters that queues capture, by group and queue, of the groups that answer; raise
    nothing."""
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    try:
        for group in await groups():
            known[group] = _decode_topics(await _ask(group, Topics(), max_staleness=_STALE))
    except GossamerError as error:
        log.debug("queues_not_listed", error=str(error))
    return known


async def show_in(group: str, queue: str) -> QueueDetails | None:
    """Return a queue with its consumer groups; None: the group has none of this name."""
    found: QueueDetails | None = _decode_details(await _ask(group, Show(queue)))
    return found


async def peek_in(group: str, queue: str, offset: int, limit: int) -> list[Message] | None:
    """Return messages from an offset on, without taking them; None: no such queue."""
    found: list[Message] | None = _decode_messages(await _ask(group, Peek(queue, offset, limit)))
    return found


async def checkpoint_in(group: str, queue: str, consumers: str) -> Checkpoint | None:
    """Return the checkpoint of a consumer group; None: no such queue."""
    found: Checkpoint | None = _decode_checkpoint(await _ask(group, Saved(queue, consumers)))
    return found


async def held(group: str, node: str, *, stale: bool) -> HeldAnswer:
    """Return what the consumers of a node have; ``stale``: as of some seconds ago at most."""
    max_staleness = _STALE if stale else 0.0
    found: HeldAnswer = _decode_held(await _ask(group, Held(node), max_staleness=max_staleness))
    return found


async def group_of(queue: str, *, moving: bool = False) -> str | None:
    """Return the group that has a queue; None: none has. One that goes to another group is waited for, also
    where ``moving`` says that it did and a group cannot be asked now."""
    loop = asyncio.get_running_loop()
    until, missed = loop.time() + _MOVE_TIMEOUT, False
    while loop.time() < until:
        known = await groups()
        try:
            found = {group: _decode_presence(await _ask(group, Has(queue))) for group in known}
        except NotReadyError:
            if not moving:
                raise
            continue
        moving = Presence.MOVING in found.values()
        for group, presence in found.items():
            if presence is Presence.HERE:
                return group
        if not moving:
            # It may have gone to a group that was asked before that, from one that was asked after.
            if missed or len(known) < 2:
                return None
            missed = True
            continue
        await asyncio.sleep(_MOVE_RETRY)
    raise NotReadyError("read", f"queue {queue} is on its way to another replication group")


async def move_part(group: str, move: str, position: int) -> Part | None:
    """Return the part at a position of a queue that leaves a group; None: it has left."""
    part: Part | None = _decode_part(await _ask(group, MovePart(move, position)))
    return part


async def buries_in(group: str, letters: str) -> str:
    """Return a queue of a group whose dead letters go to the one of this name; blank: there is none."""
    found: str = _decode_name(await _ask(group, Buries(letters), max_staleness=_STALE))
    return found


async def _ask(group: str, question: Question, *, max_staleness: float = 0.0) -> bytes:
    answer: Any = await read(kind_of(group), encode(question), max_staleness=max_staleness)
    if not isinstance(answer, bytes):
        raise NotReadyError("read", f"group {group} answered with {type(answer).__name__}")
    return answer
