"""One replica of a group on this node: its turns, and who waits for what they bring.

Without I/O: the server asks for the work of a turn, has it done in the order that ``replica`` explains, and
reports it done. A snapshot is taken after :data:`SNAPSHOT_EVERY` entries, or :data:`SNAPSHOT_BYTES` of them.

Rules: 1. Requests and reads are taken at the leader alone, which answers once they are applied; elsewhere the
answer is who leads.  2. A leader that steps down answers :class:`UnknownOutcomeError` to who still waits:
what it appended may be committed or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gossamer.raft.errors import DamagedLogError, NotReadyError, UnknownOutcomeError
from gossamer.raft.host.gathering import LARGE, Gathering
from gossamer.raft.host.replicated import (
    Born,
    Durable,
    Offspring,
    Replicated,
    offspring_in,
    request_entry,
)
from gossamer.raft.messages import Message
from gossamer.raft.replica import Replica
from gossamer.raft.state import Ready, Role
from gossamer.raft.values import ChunkWanted
from gossamer.raft.wal.records import Mark, Record

SNAPSHOT_EVERY = 4096
SNAPSHOT_BYTES = 8 * 2**20
"""Entries after which a snapshot is taken, and bytes of them, or more where the last one was larger."""
KEPT = 1024
KEPT_BYTES = 4 * 2**20
"""Entries behind a snapshot that stay for members that are a little behind, and about how many bytes."""
CHUNK = 128 * 1024

Answer = Callable[[object], object]
"""Called with a result, or with the error in its place."""


class Group:
    """Group ``number``; its replica at ``node``, this one, has what ``replica`` and ``state`` began with."""

    snapshot_every = SNAPSHOT_EVERY
    kept = KEPT

    def __init__(self, number: int, node: str, replica: Replica, state: Replicated) -> None:
        self.number = number
        self.replica = replica
        self.state = state
        self.learned = {replica.id: node}
        """Nodes of replicas from which messages came, for one that has no entries yet."""
        self._waiting: dict[int, tuple[int, Answer]] = {}
        """Term and answer of each request, by index."""
        self._gathering: Gathering[tuple[bytes, Answer]] = Gathering()
        self._together: set[int] = set()
        """Indexes of the requests that left together."""
        self._now = 0.0
        self._durable: list[tuple[int, int, object, Answer]] = []
        """Index, voters, result and answer of what waits for more discs than a quorum."""
        self._seen = 0, 0, 0
        """Term, round of heartbeats, and end of the log, when it was last asked who is in sync."""
        self._reads: dict[int, tuple[bytes, Sequence[bytes], Answer]] = {}
        self._ripe: list[tuple[int, int]] = []
        """Index that must be applied and context of each read that is confirmed."""
        self._context = 0
        self._applied = replica.log.applied
        """What the state has: the replica's log is ahead while a snapshot is not installed."""
        self._staged = b""
        self._applied_bytes = 0
        """Of entries since the last snapshot."""
        self.snapshot_bytes = 0
        """Size of the latest snapshot that it stored or took over."""
        self._unheard = False
        """A node that is to vote has not begun with the group yet."""
        self.unborn: list[Offspring] = []
        """Groups that begin with what was applied here, and have no replica on this node's disc yet."""

    @property
    def leads(self) -> bool:
        """True while this replica leads, as far as it knows."""
        return self.replica.role is Role.LEADER

    def node_of(self, replica: int) -> str:
        """Return the node of a replica; blank: not known."""
        return self.state.nodes.get(replica) or self.learned.get(replica, "")

    @property
    def leader(self) -> str:
        """Node of the leader; blank: not known."""
        return self.node_of(self.replica.leader) if self.replica.leader else ""

    def behind(self) -> dict[str, int]:
        """Return, at a leader, how many entries the disc of each other member is not known to have."""
        last, progress = self.replica.log.last, self.replica.progress()
        others = {
            self.node_of(member): match
            for member, (match, _) in progress.items()
            if member != self.replica.id
        }
        return {node: max(0, last - match) for node, match in others.items() if node}

    # -- clients

    def request(self, request: bytes, answer: Answer) -> None:
        """Commit a request, and answer with its result.

        Raises:
            NotReadyError: not here, or not now.
        """
        self._must_be_founded("request")
        entry = request_entry(request)
        if len(request) < LARGE:
            self._propose(entry, answer)
        else:
            self._must_lead("request")
            self._gathering.add((entry, answer))

    def admit(self, entry: bytes, answer: Answer) -> None:
        """Commit an entry that admits a replica; answer with its number. Raises NotReadyError."""
        self._propose(entry, answer)

    def read(self, question: bytes, answer: Answer, more: Sequence[bytes] = ()) -> None:
        """Answer a question by a state that has all that was answered before it was asked; with ``more`` of
        them all, with a list.

        Raises:
            NotReadyError: not here, or not now.
        """
        self._must_be_founded("read")
        self._must_lead("read")
        self._context += 1
        self.replica.read(self._context)
        self._reads[self._context] = question, more, answer

    def read_here(self, question: bytes, since: float) -> object | None:
        """Answer a question by the state of this replica; None: it may be older than ``since``."""
        if not self.state.nodes or self.replica.as_of(self._applied) < since:
            return None
        return self.state.machine.read(question)

    def _propose(self, entry: bytes, answer: Answer) -> None:
        self._must_lead("request")
        self.replica.propose([entry])
        self._waiting[self.replica.log.last] = self.replica.term, answer

    def release(self, now: float) -> float:
        """Propose the large requests that leave now; return for how many seconds others wait for more."""
        self._now = now
        for entry, answer in self._gathering.due(now):
            try:
                self._propose(entry, answer)
            except NotReadyError as error:
                self._gathering.answered(now)
                answer(error)
            else:
                self._together.add(self.replica.log.last)
        return self._gathering.waits(now)

    def _must_be_founded(self, what: str) -> None:
        if not self.state.nodes:
            raise NotReadyError(what, "the group is just being founded")

    def _must_lead(self, what: str) -> None:
        if not self.leads:
            raise NotReadyError(what, "this node does not lead", leader=self.replica.leader)

    # -- turns

    def gone(self, replica: int) -> None:
        """Note that the node of a replica has not got it: of a group that has just begun, it is late."""
        self._unheard = self._unheard or replica <= self.state.began

    def ask_again(self) -> None:
        """Ask for votes again, where a node had not begun with the group. Call it each tick."""
        if self._unheard and not self.replica.leader:
            self.replica.campaign()
        self._unheard = False

    def stage(self, ready: Ready) -> bytes | None:
        """Take the chunks of a turn; return the snapshot to be stored, if it is whole now."""
        for chunk in ready.chunks:
            self._staged = (self._staged if chunk.offset else b"") + chunk.data
        return self._staged if ready.snapshot is not None else None

    def born_with(self, snapshot: bytes, index: int) -> list[Offspring]:
        """Return the groups that begin here with a snapshot up to ``index``, which is to be installed: those
        whose beginning it has in place of the entries. Earlier ones have begun here before, and may be gone
        since."""
        try:
            found = offspring_in(snapshot, f"snapshot {index} of group {self.number:x}")
        except DamagedLogError:
            # The replica is dropped when it is to be installed.
            return []
        new = [one for one in found if one.index > self._applied and self._takes_part(one)]
        return [*self.unborn, *new]

    def _takes_part(self, offspring: Offspring) -> bool:
        return self.replica.id in offspring.membership.members

    def record(self, ready: Ready) -> Record | None:
        """Return what the log must keep of a turn."""
        mark = None
        if ready.snapshot is not None:
            mark = Mark(ready.snapshot, ready.snapshot.index, ready.snapshot.term)
        if not (ready.hard or ready.entries or mark):
            return None
        return Record(self.number, ready.hard, mark, ready.entries, mark is not None)

    def done(self, ready: Ready) -> list[Message]:
        """Apply what is committed, and answer; return the messages that were promises. The disc has the turn.

        Raises:
            DamagedLogError: a snapshot is not what its sender stored.
        """
        if ready.snapshot is not None:
            self.state.restore(self._staged, f"snapshot {ready.snapshot.index} of group {self.number:x}")
            self.snapshot_bytes, self._staged = len(self._staged), b""
            self._applied = ready.snapshot.index
        for entry in ready.committed:
            result = self.state.apply(entry)
            if isinstance(result, Born):
                membership = self.replica.log.membership_at(entry.index)
                born, result = self.state.bear(result, entry.index, membership), result.value
                self.unborn += [born] if self._takes_part(born) else []
            self._applied = entry.index
            self._applied_bytes += len(entry.data)
            if entry.index in self._together:
                self._together.remove(entry.index)
                self._gathering.answered(self._now)
            term, answer = self._waiting.pop(entry.index, (0, None))
            if answer is None:
                continue
            if term != entry.term:
                answer(UnknownOutcomeError())
            elif isinstance(result, Durable):
                self._durable.append((entry.index, result.voters, result.value, answer))
            else:
                answer(result)
        self._ripe += [(read.index, read.context) for read in ready.reads]
        self.replica.advance(ready)
        self._answer_reads()
        self.answer_durable()
        if not self.leads:
            self.give_up()
        return ready.promises

    def answer_durable(self) -> None:
        """Answer what waited for more discs than a quorum, as far as these have it by now."""
        if not self._durable:
            return
        waiting, self._durable = self._durable, []
        for one in waiting:
            index, voters, value, answer = one
            if len(self.replica.in_sync(index)) >= voters:
                answer(value)
            else:
                self._durable.append(one)

    def in_sync(self) -> int | None:
        """Return, at a leader, how many voters keep up, itself among them: they have all that there was when
        this was last asked, and have answered a heartbeat of that time; None: it has just begun to lead."""
        term, round_, index = self._seen
        self._seen = self.replica.term, *self.replica.position
        return len(self.replica.in_sync(index, round_)) if term == self.replica.term else None

    def _answer_reads(self) -> None:
        applied = self.replica.log.applied
        ripe, self._ripe = self._ripe, []
        for index, context in ripe:
            if index > applied:
                self._ripe.append((index, context))
            elif context in self._reads:
                question, more, answer = self._reads.pop(context)
                found = [self.state.machine.read(one) for one in (question, *more)]
                answer(found if more else found[0])

    def give_up(self) -> None:
        """Answer who waits for a leader that is none any more."""
        waiting, self._waiting = self._waiting, {}
        reads, self._reads, self._ripe = self._reads, {}, []
        durable, self._durable = self._durable, []
        self._together.clear()
        for _, answer in self._gathering.give_up():
            answer(UnknownOutcomeError())
        found = [*(w[-1] for w in waiting.values()), *(r[-1] for r in reads.values())]
        for answer in found + [d[-1] for d in durable]:
            answer(UnknownOutcomeError())

    # -- snapshots

    @property
    def snapshot_due(self) -> bool:
        """True once enough was applied since the last one."""
        log = self.replica.log
        large = self._applied_bytes >= max(SNAPSHOT_BYTES, self.snapshot_bytes)
        return bool(self.unborn) or large or log.applied - log.snapshot.index >= self.snapshot_every

    def compact(self, index: int, size: int) -> Record:
        """Forget what is before a snapshot of ``size`` that the disc has; return the record that says so."""
        log = self.replica.log
        each = self._applied_bytes // max(index - log.snapshot.index, 1)
        snapshot = self.replica.compact(index, keep=min(self.kept, KEPT_BYTES // max(each, 1)))
        self._applied_bytes, self.snapshot_bytes = 0, size
        return Record(self.number, None, Mark(snapshot, log.base, log.term(log.base) or 0))

    def chunk(self, wanted: ChunkWanted, data: bytes) -> None:
        """Send the part of a snapshot that is wanted."""
        part = data[wanted.offset : wanted.offset + CHUNK]
        self.replica.chunk(wanted, part, last=wanted.offset + CHUNK >= len(data))
