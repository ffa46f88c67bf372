"""A leader: takes proposals, brings every member to the same log, commits, confirms reads, hands over.

Rules: 1. Only entries of its own term are committed by counting; earlier ones with them (section 3.6.2).
2. Its own entries count when its disc has them.  3. What it sends is decided in :func:`flush`, once a turn:
all proposals of a turn are one message to each member.  4. A change of members begins when the one before it
is committed; a change of voters goes through a joint configuration, which the leader leaves by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.raft.errors import BadMembershipError, LyingReplicaError, NotReadyError
from gossamer.raft.messages import (
    Append,
    Appended,
    ChunkReply,
    Forward,
    Heartbeat,
    HeartbeatReply,
    ReadReply,
    ReadRequest,
    Rejected,
    TimeoutNow,
)
from gossamer.raft.progress import Flow, Progress
from gossamer.raft.quorum import Vote
from gossamer.raft.state import Role, Round, State, become_follower
from gossamer.raft.values import ChunkWanted, Entry, Membership, ReadState, membership_entry

MAX_READS = 65_536
"""Reads that wait for the turn's end, or for the first entry of the leader's term."""


def become_leader(state: State) -> None:
    """Lead the present term, beginning with a blank entry that lets earlier ones be committed."""
    state.reset(state.term)
    state.role = Role.LEADER
    state.leader = state.id
    _follow_membership(state)
    _append(state, [Entry(state.log.last + 1, state.term)])


def tick(state: State, count: int) -> None:
    """Let one tick pass: heartbeats, and whether a quorum still answers.

    An idle group has its heartbeats when ``count``, the host's number of this tick, is a multiple of their
    interval: those of all groups that lead at a host leave together.
    """
    settings = state.settings
    state.elapsed += 1
    if state.elapsed >= settings.election_ticks:
        state.elapsed = 0
        state.transferee = 0
        answers = {member: True for member, progress in state.progress.items() if progress.active}
        silent = {member: False for member in state.progress if member not in answers}
        if state.membership.outcome(answers | silent | {state.id: True}) is not Vote.WON:
            become_follower(state, state.term, 0)
            return
        for progress in state.progress.values():
            progress.active = False
    state.since_heartbeat += 1
    if state.since_heartbeat >= settings.heartbeat_ticks and (
        count % settings.idle_heartbeat_ticks == 0 or not _idle(state)
    ):
        _heartbeat(state)


def _idle(state: State) -> bool:
    """Return whether all members have all, and nobody waits for a heartbeat's answer."""
    last = state.log.last
    if state.transferee or state.reads_asked or state.log.committed < last:
        return False
    return not any(sent.reads for sent in state.rounds) and all(
        progress.match == last for progress in state.progress.values()
    )


def _heartbeat(state: State) -> None:
    """Ask all whether this is still the leader, for the reads that wait too."""
    log, confirmed = state.log, state.confirmed
    state.since_heartbeat = 0
    state.round += 1
    # What was committed before it led is known only once an entry of its own term is.
    if log.term(log.committed) == state.term:
        stamps = {member: progress.stamp for member, progress in state.progress.items()}
        stamps[state.id] = state.freshness.stamp()
        reads, state.reads_asked = state.reads_asked, []
        state.rounds.append(Round(state.round, log.committed, stamps, reads))
    for member, progress in state.progress.items():
        if member != state.id:
            known = min(progress.match, log.committed), state.round
            as_of = confirmed.stamps.get(member, 0), confirmed.committed
            state.messages.append(Heartbeat(member, state.id, state.term, *known, *as_of))
    _confirm(state)


# -- proposals


def propose(state: State, proposals: Sequence[bytes]) -> None:
    """Append proposals.

    Raises:
        NotReadyError: leadership is being handed over, or too much waits.
    """
    if state.transferee:
        raise NotReadyError("proposal", "leadership is being handed over", leader=state.transferee)
    waiting = max(state.log.uncommitted_bytes, state.log.unstable_bytes)
    if waiting > state.settings.max_unstable_bytes:
        raise NotReadyError("proposal", f"{waiting} B wait for a disc or a quorum")
    first = state.log.last + 1
    _append(state, [Entry(first + place, state.term, data) for place, data in enumerate(proposals)])


def on_forward(state: State, message: Forward) -> None:
    """Append what a follower was asked; what cannot be is dropped, and asked again by who wanted it."""
    try:
        propose(state, message.proposals)
    except NotReadyError:
        return


def change_membership(state: State, voters: Sequence[int], learners: Sequence[int]) -> None:
    """Begin to change the members.

    Raises:
        BadMembershipError: no voter is left, or one is a learner too.
        NotReadyError: another change is under way.
    """
    log = state.log
    if not voters or set(voters) & set(learners):
        raise BadMembershipError(
            expected="at least one voter, and learners that are no voters",
            got=f"voters {sorted(voters)}, learners {sorted(learners)}",
        )
    if log.membership_index > log.committed or log.membership.joint:
        raise NotReadyError("change of members", "another one is under way")
    old, new = log.membership, tuple(sorted(set(voters)))
    outgoing = old.voters if new != old.voters else ()
    target = Membership(new, outgoing, tuple(sorted(set(learners))))
    if target != old:
        _append(state, [membership_entry(log.last + 1, state.term, target)])


def _append(state: State, entries: list[Entry]) -> None:
    before = state.log.membership_index
    state.log.append(entries)
    if state.log.membership_index != before:
        _follow_membership(state)


def _follow_membership(state: State) -> None:
    members = state.membership.members
    old = state.progress
    state.progress = {member: old.get(member) or Progress(state.log.last + 1) for member in members}
    own = state.progress.get(state.id)
    if own is not None:
        own.match = state.log.stable
        own.flow = Flow.REPLICATE


# -- what goes out


def flush(state: State) -> None:
    """Send each member what it lacks and may be sent now."""
    _begin_reads(state)
    for member, progress in state.progress.items():
        if member == state.id:
            continue
        if progress.flow is Flow.PROBE:
            if not progress.waiting:
                progress.waiting = _send(state, member, progress)
        elif progress.flow is Flow.REPLICATE:
            _send_ahead(state, member, progress)
        if progress.chunk_due and progress.snapshot is not None:
            progress.chunk_due = False
            state.wanted.append(ChunkWanted(member, progress.snapshot, progress.offset))


def _send_ahead(state: State, member: int, progress: Progress) -> None:
    sent = False
    while progress.next <= state.log.last and len(progress.inflight) < state.settings.max_inflight:
        if not _send(state, member, progress):
            return
        sent = True
    if not sent and (progress.nudge or progress.commit_sent < state.log.committed):
        _send(state, member, progress, blank=True, quiet=not progress.nudge)
    progress.nudge = False


def _send(state: State, member: int, progress: Progress, *, blank: bool = False, quiet: bool = False) -> bool:
    """Send one message with entries; False where these are compacted, and a snapshot is due instead."""
    log = state.log
    prev = progress.next - 1
    prev_term = log.term(prev)
    if prev_term is None:
        if progress.active:
            progress.begin_snapshot(log.snapshot)
        return False
    entries = [] if blank else log.slice(progress.next, log.last, state.settings.max_append_bytes)
    agree = prev, prev_term
    state.messages.append(Append(member, state.id, state.term, *agree, entries, log.committed, quiet))
    progress.commit_sent = log.committed
    if entries and progress.flow is Flow.REPLICATE:
        progress.sent(entries[-1].index)
    return True


# -- what comes back


def on_appended(state: State, message: Appended) -> None:
    """A member's disc has more."""
    if message.index > state.log.last:
        raise LyingReplicaError(
            message.sender,
            what="acknowledged index",
            got=message.index,
            expected=f"at most {state.log.last}, the last of its leader",
        )
    progress = _heard(state, message.sender)
    if progress is not None and progress.acknowledge(message.index):
        commit(state)
        _finish_transfer(state)


def on_rejected(state: State, message: Rejected) -> None:
    """A member's log differs before what it was sent."""
    progress = _heard(state, message.sender)
    if progress is not None:
        hint, _ = state.log.conflict_hint(message.hint_index, message.hint_term)
        progress.reject(message.prev_index, hint)


def on_heartbeat_reply(state: State, message: HeartbeatReply) -> None:
    """A member follows."""
    if message.round > state.round:
        raise LyingReplicaError(
            message.sender,
            what="round of heartbeats",
            got=message.round,
            expected=f"at most {state.round}, the last that was sent",
        )
    progress = state.progress.get(message.sender)
    if progress is not None:
        progress.answered_heartbeat(state.log.last, message.round, message.stamp)
        _confirm(state)


def on_chunk_reply(state: State, message: ChunkReply) -> None:
    """A member has a part of a snapshot."""
    progress = _heard(state, message.sender)
    if progress is not None:
        progress.received(message.index, message.received)


def _heard(state: State, sender: int) -> Progress | None:
    progress = state.progress.get(sender)
    if progress is not None:
        progress.active = True
    return progress


def stored(state: State) -> None:
    """Count what its own disc has."""
    own = state.progress.get(state.id)
    if own is not None and own.acknowledge(state.log.stable):
        commit(state)


def commit(state: State) -> None:
    """Commit what a quorum has, and do what waited for that."""
    log = state.log
    index = state.membership.acknowledged({m: progress.match for m, progress in state.progress.items()})
    if not may_commit(state, index) or not log.commit_to(index):
        return
    membership = log.membership
    if log.membership_index > log.committed:
        return
    if membership.joint:
        _append(state, [membership_entry(log.last + 1, state.term, membership.left())])
    elif not membership.votes(state.id):
        _retire(state)


def may_commit(state: State, index: int) -> bool:
    """Return whether a count commits: an earlier leader's entry may be replaced though a quorum has it."""
    return state.log.term(index) == state.term


def _retire(state: State) -> None:
    """Step down as one that is no voter, with the best of those who are as the next leader."""
    flush(state)
    best = max(state.membership.voters, key=lambda voter: (state.progress[voter].match, -voter))
    if state.progress[best].match == state.log.last:
        state.messages.append(TimeoutNow(best, state.id, state.term))
    become_follower(state, state.term, 0)


# -- handing over


def transfer(state: State, to: int) -> None:
    """Hand leadership to a voter, once it has the whole log.

    Raises:
        BadMembershipError: it is none.
    """
    if to not in state.membership.voters:
        raise BadMembershipError(expected=f"one of the voters {state.membership.voters}", got=str(to))
    if to == state.id:
        return
    state.transferee = to
    state.elapsed = 0
    _finish_transfer(state)


def _finish_transfer(state: State) -> None:
    progress = state.progress.get(state.transferee)
    if progress is not None and progress.match == state.log.last:
        state.messages.append(TimeoutNow(state.transferee, state.id, state.term))


# -- reads


def read(state: State, context: int, replica: int) -> None:
    """Take a read of this replica or of a follower.

    Raises:
        NotReadyError: too many wait.
    """
    if len(state.reads_asked) >= MAX_READS:
        raise NotReadyError("read", f"{MAX_READS} reads wait")
    state.reads_asked.append((context, replica))


def on_read_request(state: State, message: ReadRequest) -> None:
    """A follower asks up to where it must apply before it reads."""
    try:
        read(state, message.context, message.sender)
    except NotReadyError:
        return


def _begin_reads(state: State) -> None:
    """Ask a quorum for all reads of the turn at once, if they can be answered."""
    if state.reads_asked and state.log.term(state.log.committed) == state.term:
        _heartbeat(state)


def _confirm(state: State) -> None:
    """Answer the reads of the rounds that a quorum has answered."""
    rounds = {member: progress.round for member, progress in state.progress.items()}
    confirmed = state.membership.acknowledged(rounds | {state.id: state.round})
    while state.rounds and state.rounds[0].number <= confirmed:
        done = state.confirmed = state.rounds.popleft()
        index = done.committed
        state.freshness.confirm(done.stamps[state.id], index)
        for context, replica in done.reads:
            if replica == state.id:
                state.reads.append(ReadState(context, index))
            else:
                state.messages.append(ReadReply(replica, state.id, 0, context, index))
