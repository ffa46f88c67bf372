"""One replica of one group, without I/O: `Step`, `Tick`, `Ready`, `Advance` as in etcd.

::

    replica.tick()  step(message)  propose([data])  read(context)  …
    ready = replica.ready()                  all that is to be done
        send(ready.messages)
        read(ready.wanted) → replica.chunk   parts of snapshots, for members that need them
        stage(ready.chunks), install(ready.snapshot)
        write(ready.entries, ready.hard)     and sync, if ready.must_sync
        send(ready.promises)                 only now
        apply(ready.committed), then answer ready.reads up to the applied index
    replica.advance(ready)                   it is done

Rules: 1. The host does a turn in this order; steps and ticks may come in while it does.  2. After a failed
write that may be tried again the same turn is done again; after any other the replica is dropped and made
again from what the disc holds.  3. A message at which :meth:`Replica.step` raises has left the log as it was,
and is dropped; at a :class:`DamagedLogError` so is the replica.

Deterministic: the same calls with the same ``random`` make the same turns; the clock decides nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from gossamer.raft import election, follower, leader
from gossamer.raft.errors import LyingReplicaError, NotReadyError
from gossamer.raft.log import Log
from gossamer.raft.messages import (
    Append,
    Appended,
    Chunk,
    ChunkReply,
    Forward,
    Heartbeat,
    HeartbeatReply,
    Message,
    ReadReply,
    ReadRequest,
    Rejected,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from gossamer.raft.progress import Flow
from gossamer.raft.state import Ready, Role, Settings, State, become_follower
from gossamer.raft.values import ChunkWanted, Entry, HardState, Membership, Snapshot

BLANK = HardState()
DEFAULTS = Settings()
MAX_TERMS_AHEAD = 2**32
"""Elections that nobody can have missed. A lie beyond would use up the numbers that terms have on disc."""
_OF_LEADERS = (Append, Heartbeat, Chunk, TimeoutNow)
_AT_FOLLOWERS: dict[type[Message], Callable[[State, Any], None]] = {
    Append: follower.on_append,
    Heartbeat: follower.on_heartbeat,
    Chunk: follower.on_chunk,
    ReadReply: follower.on_read_reply,
    VoteRequest: election.on_vote_request,
}
_AT_CANDIDATES = _AT_FOLLOWERS | {VoteReply: election.on_vote_reply}
_AT_LEADERS: dict[type[Message], Callable[[State, Any], None]] = {
    Appended: leader.on_appended,
    Rejected: leader.on_rejected,
    HeartbeatReply: leader.on_heartbeat_reply,
    ChunkReply: leader.on_chunk_reply,
    Forward: leader.on_forward,
    ReadRequest: leader.on_read_request,
    ReadReply: follower.on_read_reply,
    VoteRequest: election.on_vote_request,
}
_HANDLERS = {
    Role.FOLLOWER: _AT_FOLLOWERS,
    Role.TRIAL: _AT_CANDIDATES,
    Role.CANDIDATE: _AT_CANDIDATES,
    Role.LEADER: _AT_LEADERS,
}


class Replica:
    """State machine of one replica; see the module for the order of calls."""

    def __init__(
        self,
        replica: int,
        log: Log,
        hard: HardState = BLANK,
        *,
        random: Random,
        clock: Callable[[], float],
        settings: Settings = DEFAULTS,
    ) -> None:
        """``replica``: its number in the group, above 0; ``log`` and ``hard``: what the disc has; ``clock``
        never goes back, and only tells how old the state is.

        Raises:
            DamagedLogError: the log ends before what is known to be committed.
        """
        self._state = State(replica, log, hard, settings, random, clock)
        self._hard = hard
        self._idle = False
        """Nothing has happened since there was no work: of a hundred groups few have any in a turn."""

    # -- what it is

    @property
    def id(self) -> int:
        """Its number."""
        return self._state.id

    @property
    def term(self) -> int:
        """Its term."""
        return self._state.term

    @property
    def role(self) -> Role:
        """Its role in that term."""
        return self._state.role

    @property
    def leader(self) -> int:
        """Number of the leader that it follows or is; 0: not known."""
        return self._state.leader

    @property
    def elections(self) -> int:
        """Number of elections that it has begun, trials apart."""
        return self._state.elections

    @property
    def log(self) -> Log:
        """Its log, to be read."""
        return self._state.log

    @property
    def membership(self) -> Membership:
        """The members, by its log."""
        return self._state.membership

    def progress(self) -> dict[int, tuple[int, Flow]]:
        """Return, at a leader, how far each member is known to be, and how entries flow to it."""
        return {member: (p.match, p.flow) for member, p in self._state.progress.items()}

    @property
    def position(self) -> tuple[int, int]:
        """Its last round of heartbeats, and the end of its log."""
        return self._state.round, self.log.last

    def in_sync(self, index: int, round_: int = 0) -> set[int]:
        """Return, at a leader, the voters whose discs have the log up to ``index`` and that have answered
        heartbeats of ``round_``; itself is one."""
        voters = {*self.membership.voters, *self.membership.outgoing}
        return {
            member
            for member, progress in self._state.progress.items()
            if member in voters
            and progress.match >= index
            and (member == self.id or progress.round >= round_)
        }

    # -- what happens to it

    def tick(self, count: int) -> None:
        """Let one tick of time pass, the host's number ``count``."""
        state = self._state
        role = state.role
        state.guarded = max(state.guarded - 1, 0)
        if role is Role.LEADER:
            leader.tick(state, count)
        else:
            election.tick(state)
        self._idle = self._idle and state.role is role and not (state.messages or state.promises)

    def step(self, message: Message) -> None:
        """Take a message from another replica.

        Raises:
            LyingReplicaError: the sender states what cannot be.
            DamagedLogError: this replica's disc lost what it had acknowledged.
        """
        state, self._idle = self._state, False
        if message.term > state.term + MAX_TERMS_AHEAD:
            most = f"at most {MAX_TERMS_AHEAD} above {state.term}"
            raise LyingReplicaError(message.sender, what="term", got=message.term, expected=most)
        if message.to != state.id or (message.term and not _of_this_term(state, message)):
            return
        if isinstance(message, TimeoutNow):
            if state.may_campaign:
                election.campaign(state, trial=False, transfer=True)
            return
        handler = _HANDLERS[state.role].get(type(message))
        if handler is not None:
            handler(state, message)

    def propose(self, proposals: Sequence[bytes]) -> None:
        """Propose entries, here or by way of the leader. They may be lost: only what is applied was taken.

        Raises:
            NotReadyError: there is no leader, it hands over, or too much waits.
        """
        self._idle = False
        if self._state.role is Role.LEADER:
            leader.propose(self._state, proposals)
        else:
            follower.propose(self._state, proposals)

    def read(self, context: int) -> None:
        """Ask for a :class:`ReadState` with that context; it may never come.

        Raises:
            NotReadyError: there is no leader, or too many wait.
        """
        self._idle = False
        if self._state.role is Role.LEADER:
            leader.read(self._state, context, self.id)
        else:
            follower.read(self._state, context)

    def as_of(self, applied: int) -> float:
        """Return the time by the replica's clock than which a state is no older that has applied so much:
        it has all that was committed before. Without a leader's word, -inf."""
        return self._state.freshness.as_of(applied)

    def configure(self, settings: Settings) -> None:
        """Go by other limits and times from now on."""
        state, self._idle = self._state, False
        state.settings = settings
        if state.guarded:
            state.guarded = max(state.guarded, settings.election_ticks)

    def campaign(self) -> None:
        """Ask for votes now, without waiting for a timeout."""
        self._idle = False
        if self.role is not Role.LEADER and self._state.may_campaign:
            election.campaign(self._state, trial=True)

    def transfer(self, to: int) -> None:
        """Hand leadership to another voter; it is given up after ``election_ticks``.

        Raises:
            NotReadyError: this is not the leader.
            BadMembershipError: that one is no voter.
        """
        self._only_leader("transfer")
        leader.transfer(self._state, to)

    def change_membership(self, voters: Sequence[int], learners: Sequence[int] = ()) -> None:
        """Change the members to these; done when an entry that says so is applied and it is not joint.

        Raises:
            NotReadyError: this is not the leader, or another change is under way.
            BadMembershipError: no such group can be.
        """
        self._only_leader("change of members")
        leader.change_membership(self._state, voters, learners)

    def _only_leader(self, what: str) -> None:
        self._idle = False
        if self.role is not Role.LEADER:
            raise NotReadyError(what, "this replica is not the leader", leader=self.leader)

    # -- snapshots

    def compact(self, index: int, *, keep: int = 0) -> Snapshot:
        """Note that the host has stored a snapshot up to an applied ``index``; forget the entries up to it.

        The last ``keep`` of them stay for members that are a little behind, and those that one needs that
        is getting an older snapshot. Returns the position of the snapshot.
        """
        state, log, self._idle = self._state, self._state.log, False
        term = log.term(index)
        if term is None or not log.snapshot.index <= index <= log.applied:
            raise NotReadyError("snapshot", f"entry {index} is not among those applied since the last one")
        snapshot = Snapshot(index, term, log.membership_at(index))
        going = [p.snapshot.index for p in state.progress.values() if p.snapshot and p.active]
        log.compact(snapshot, min([index - keep, *going]))
        return snapshot

    def snapshots_in_use(self) -> set[Snapshot]:
        """Return the snapshots that the host must keep: the newest, and those on their way to members."""
        going = {p.snapshot for p in self._state.progress.values() if p.snapshot is not None}
        return going | {self.log.snapshot}

    def send_anew(self) -> None:
        """Send the newest snapshot, from its start, to every member that is getting one."""
        self._idle = False
        for progress in self._state.progress.values():
            if progress.snapshot is not None:
                progress.begin_snapshot(self.log.snapshot)

    def chunk(self, wanted: ChunkWanted, data: bytes, *, last: bool) -> None:
        """Send a part of a snapshot that was wanted."""
        state, self._idle = self._state, False
        progress = state.progress.get(wanted.to)
        if state.role is Role.LEADER and progress is not None and progress.snapshot == wanted.snapshot:
            chunk = Chunk(wanted.to, self.id, state.term, wanted.snapshot, wanted.offset, data, last)
            state.messages.append(chunk)

    # -- turns

    def ready(self) -> Ready | None:
        """Return the next turn's work, None if there is none."""
        if self._idle:
            return None
        state, log = self._state, self._state.log
        if state.role is Role.LEADER:
            leader.flush(state)
        hard = HardState(state.term, state.vote, log.committed)
        entries = log.unstable
        committed: list[Entry] = []
        if log.applied < log.committed:
            committed = log.slice(log.applied + 1, log.committed, state.settings.max_apply_bytes)
        pledged = (hard.term, hard.vote) != (self._hard.term, self._hard.vote)
        waiting = state.messages or state.promises or state.chunks or state.wanted or state.reads
        if not (entries or committed or waiting or hard != self._hard):
            self._idle = True
            return None
        ready = Ready(
            hard=hard if hard != self._hard else None,
            entries=entries,
            snapshot=state.install,
            chunks=state.chunks,
            # In a term that the disc does not know yet even a leader's entries are promises: after a restart
            # it could lead the same term again, with others.
            messages=[] if pledged else state.messages,
            promises=[*state.messages, *state.promises] if pledged else state.promises,
            committed=committed,
            reads=state.reads,
            wanted=state.wanted,
            must_sync=bool(entries or pledged or state.install),
        )
        state.messages, state.promises, state.chunks = [], [], []
        state.reads, state.wanted, state.install = [], [], None
        return ready

    def advance(self, ready: Ready) -> None:
        """Note that a turn's work is done."""
        state, log = self._state, self._state.log
        if ready.hard is not None:
            self._hard = ready.hard
        if ready.entries:
            log.stored(ready.entries[-1].index, ready.entries[-1].term)
        if ready.committed:
            log.applied = max(log.applied, ready.committed[-1].index)
        if state.role is Role.LEADER:
            leader.stored(state)


def _of_this_term(state: State, message: Message) -> bool:
    """Bring replica and message to one term; False if the message is of no use."""
    if message.term > state.term:
        if isinstance(message, VoteRequest):
            silent = state.elapsed >= state.settings.election_ticks
            if state.leader and not silent and not message.transfer:
                return False
            if message.trial:
                return True
        elif isinstance(message, VoteReply) and message.granted:
            # Granted in the term that would begin, which has not.
            return message.trial
        become_follower(state, message.term, 0)
    elif message.term < state.term:
        _answer_old_term(state, message)
        return False
    if isinstance(message, _OF_LEADERS):
        if state.role is not Role.FOLLOWER:
            become_follower(state, message.term, message.sender)
        state.leader = message.sender
        state.elapsed = 0
    return True


def _answer_old_term(state: State, message: Message) -> None:
    """Tell a leader or candidate of an old term the present one, or it would not learn it: while others
    follow that leader, nobody would elect another."""
    if isinstance(message, VoteRequest):
        state.promises.append(VoteReply(message.sender, state.id, state.term, False, message.trial))
    elif isinstance(message, _OF_LEADERS):
        state.promises.append(Rejected(message.sender, state.id, state.term, 0, 0, 0))
