"""A follower: takes a leader's entries, heartbeats and snapshots.

Rules: 1. An entry is acknowledged with the promises of a turn, so after the disc has it.  2. Chunks of a
snapshot are taken in order, from one sender in one term and for one position; anything else begins again or
is answered with what is here.  3. Where the disc cannot keep up, entries are left to come again.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.raft.errors import DamagedLogError, NotReadyError
from gossamer.raft.messages import (
    Append,
    Appended,
    Chunk,
    ChunkReply,
    Forward,
    Heartbeat,
    HeartbeatReply,
    ReadReply,
    ReadRequest,
    Rejected,
)
from gossamer.raft.state import Staged, State
from gossamer.raft.values import ReadState


def on_append(state: State, message: Append) -> None:
    """Take entries, or say where the logs may agree.

    Raises:
        DamagedLogError: they would change what is committed.
    """
    log = state.log
    if message.prev_index < log.committed and not _beyond(message, log.committed):
        if not message.quiet:
            _acknowledge(state, message.sender, log.committed)
        return
    if message.entries and log.unstable_bytes > state.settings.max_unstable_bytes:
        return
    prev_index, prev_term, entries = message.prev_index, message.prev_term, message.entries
    if prev_index < log.committed:
        # What is committed here is committed there, so the rest follows on it.
        skipped = log.committed - prev_index
        prev_index, prev_term = log.committed, entries[skipped - 1].term
        entries = entries[skipped:]
        if prev_term != log.term(prev_index):
            raise DamagedLogError(
                f"log, entry {prev_index}",
                got=f"one of term {log.term(prev_index)}, committed",
                expected=f"one of term {prev_term}, as its leader has",
            )
    if log.accept(prev_index, prev_term, entries):
        last = prev_index + len(entries)
        log.commit_to(min(message.commit, last))
        if not message.quiet:
            _acknowledge(state, message.sender, last)
        return
    hint, hint_term = log.conflict_hint(message.prev_index, message.prev_term)
    reject = Rejected(message.sender, state.id, state.term, message.prev_index, hint, hint_term)
    state.promises.append(reject)


def _beyond(message: Append, committed: int) -> bool:
    return bool(message.entries) and message.entries[-1].index > committed


def _acknowledge(state: State, leader: int, index: int) -> None:
    state.promises.append(Appended(leader, state.id, state.term, index))


def on_heartbeat(state: State, message: Heartbeat) -> None:
    """Commit what the leader knows to be here.

    Raises:
        DamagedLogError: it is not here: the disc lost what this replica had acknowledged.
    """
    state.log.commit_to(message.commit)
    state.freshness.confirm(message.as_of, message.confirmed)
    stamp = state.freshness.stamp()
    state.promises.append(HeartbeatReply(message.sender, state.id, state.term, message.round, stamp))


def on_chunk(state: State, message: Chunk) -> None:
    """Take the next part of a snapshot, and the snapshot itself with the last one."""
    log, snapshot = state.log, message.snapshot
    if log.term(snapshot.index) == snapshot.term:
        log.commit_to(snapshot.index)
    if snapshot.index <= log.committed:
        _acknowledge(state, message.sender, log.committed)
        return
    staged = state.staged
    key = (message.sender, message.term, snapshot)
    if staged is None or (staged.sender, staged.term, staged.snapshot) != key:
        staged = state.staged = Staged(*key)
    if message.offset == staged.received and state.install is None:
        staged.received += len(message.data)
        state.chunks.append(message)
        if message.last:
            state.staged = None
            state.install = snapshot
            log.restore(snapshot)
            _acknowledge(state, message.sender, snapshot.index)
            return
    reply = ChunkReply(message.sender, state.id, state.term, snapshot.index, staged.received)
    state.promises.append(reply)


def propose(state: State, proposals: Sequence[bytes]) -> None:
    """Forward proposals to the leader.

    Raises:
        NotReadyError: none is known.
    """
    if not state.leader:
        raise NotReadyError("proposal", "no leader is known")
    state.messages.append(Forward(state.leader, state.id, 0, list(proposals)))


def read(state: State, context: int) -> None:
    """Ask the leader up to where to apply before a read.

    Raises:
        NotReadyError: none is known.
    """
    if not state.leader:
        raise NotReadyError("read", "no leader is known")
    state.messages.append(ReadRequest(state.leader, state.id, 0, context))


def on_read_reply(state: State, message: ReadReply) -> None:
    """Hand on where a read may be answered."""
    state.reads.append(ReadState(message.context, message.index))
