"""Transactions among the connected copies of shared tables, as one state machine: strict two-phase locking.

A transaction reads its node's own copy under a lock held there, and writes under locks held at every
connected copy. To commit, its coordinator stages the rows at all of them and asks for votes; when all have
said yes it writes its own copy, tells the others to do the same, and each lets go of the locks as it writes.
Whoever reads next anywhere finds the rows. All rows of one transaction carry one version, later than any they
replace, so that in a merge after a split they win or lose against single writes as any row does.

When a participant goes down, the rest go on: it will merge when it comes back. When the coordinator goes
down, those who voted yes ask each other: one has committed, or all live ones are prepared, then all commit;
one does not know of it, then none does. A table with ``majority=True`` commits on the side that has most of
its nodes; a coordinator that lost that side after asking for votes cannot know the outcome, and says so.

Rules: 1. Pure, but for the tables themselves, which it reads and writes.  2. Locks never form circles (see
``transaction_locks``).  3. Single writes outside of transactions skip the locks; what was read is therefore
compared again before a commit, here and at each participant, and a difference begins the attempt anew.
4. A copy that came up meanwhile holds no locks: the attempt begins anew, with it.

Rejected: one lock server (a hop for each lock, and an election when it dies); optimistic validation alone
(the more nodes, the more often work is thrown away, and the oldest has no right of way).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gossamer.mnesia_like.exchange import Exchange, Installed, Wake
from gossamer.mnesia_like.shared import Shared, Version
from gossamer.mnesia_like.transaction_locks import WHOLE, Age, LockManager, LockOwner, Verdict
from gossamer.mnesia_like.transaction_pipe import PipeEnd
from gossamer.mnesia_like.transaction_wire import (
    Commit,
    Died,
    End,
    Granted,
    Know,
    Lock,
    Pipe,
    Prepare,
    Query,
    Stage,
    TransactionMessage,
    Vote,
)
from gossamer.mnesia_like.values import Key, Value, encode

__all__ = ["GONE", "Attempt", "Transactions"]

GONE: Any = []
"""In place of ``[value]``: the row is deleted."""

_STAGE_ROWS = 500
_STAGE_BYTES = 64 * 1024
_REMEMBERED = 10_000


def _no_objection() -> str:
    return ""


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Attempt:
    """One attempt of a transaction of this node's.

    ``state``: ``active``, ``dead`` (begin anew), ``refused`` (will not go better), ``voting``, ``committed``,
    ``lost`` (the majority is gone and nobody here can know).
    """

    number: int
    age: Age
    state: str = "active"
    why: str = ""
    # (peer, request) of locks asked for and not granted.
    pending: set[tuple[str, int]] = field(default_factory=set)
    # Of each table that is locked for writing, the nodes where.
    writing: dict[str, set[str]] = field(default_factory=dict)
    # Nodes that know of this attempt.
    told: set[str] = field(default_factory=set)
    asked: dict[int, tuple[str, Key]] = field(default_factory=dict)
    rows: dict[str, dict[Key, list[Value]]] = field(default_factory=dict)
    voters: set[str] = field(default_factory=set)
    yes: set[str] = field(default_factory=set)
    stamp: int = 0
    # Rows of this node's own tables: why they cannot be written, if so, and the writing of them.
    objection: Callable[[], str] = _no_objection
    install_local: Callable[[], None] = _nothing

    @property
    def waiting(self) -> bool:
        """Whether there is something to wait for."""
        return self.state == "voting" or (self.state == "active" and bool(self.pending))


@dataclass(slots=True)
class _Part:
    """What this node has staged for somebody else's attempt."""

    rows: dict[str, dict[Key, list[Value]]] = field(default_factory=dict)
    reads: dict[str, dict[Key, list[Any]]] = field(default_factory=dict)
    stamp: int = 0
    peers: list[str] = field(default_factory=list)
    # None while the coordinator is there; then what the others, by name, have said.
    doubt: dict[str, str] | None = None


class Transactions:
    """See the module. ``reach``: of a table, how many of its nodes can be reached, and of how many;
    ``refuses``: why a table cannot be written now, if so."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        node: str,
        reach: Callable[[str], tuple[int, int]],
        retry: float = 1.0,
    ) -> None:
        self.node = node
        self.shared: dict[str, Shared] = {}
        self.locks = LockManager()
        self.attempts: dict[int, Attempt] = {}
        self.counts = {"committed": 0, "died": 0, "in_doubt": 0, "lost": 0, "refused": 0, "resolved": 0}
        self.refuses: Callable[[str], str] = lambda table: ""
        self._x = exchange
        self._reach = reach
        self._retry = retry
        self._pipes: dict[str, PipeEnd] = {}
        self._confirm: dict[str, None] = {}
        self._parts: dict[LockOwner, _Part] = {}
        self._outcomes: OrderedDict[LockOwner, str] = OrderedDict()
        self._numbers = 0
        self._requests = 0
        self._sessions = 0
        self._now = 0.0

    # -- what this node's own transactions ask for

    def begin(self, age: Age) -> Attempt:
        """A new attempt."""
        self._numbers += 1
        attempt = self.attempts[self._numbers] = Attempt(self._numbers, age)
        return attempt

    def unready(self, table: str) -> str:
        """Why this copy of ``table`` may lack what others have, in words; empty: it does not."""
        state = self._x.tables[table]
        for name, peer in self._x.peers.items():
            replica = state.replicas.get(name)
            if replica is not None and replica.forced:
                continue
            if peer.tables is None or replica is None or not replica.answered:
                return f"{name} has not said whether it has table {table!r}"
            if replica.refused is None and not replica.level:
                return replica.waits_for()
        return ""

    def lock(self, attempt: Attempt, table: str, key: Key, *, write: bool) -> None:
        """Lock a row (WHOLE: the table) here, and for writing at each connected copy; see ``waiting``."""
        if attempt.state != "active":
            return
        self._requests += 1
        request = self._requests
        if write:
            there = self._copies(table)
            known = attempt.writing.setdefault(table, set(there))
            if known != set(there):
                self._die(attempt, f"the copies of {table!r} changed")
                return
            attempt.asked[request] = (table, key)
            for name in there:
                attempt.pending.add((name, request))
                attempt.told.add(name)
                where = {} if key is WHOLE else {key: None}
                self._send(name, Lock(attempt.number, request, attempt.age[0], table, where, write))
        attempt.pending.add((self.node, request))
        owner = (self.node, attempt.number)
        self._verdicts(self.locks.request(owner, attempt.age, request, table, key, write=write))

    def commit(
        self,
        attempt: Attempt,
        rows: dict[str, dict[Key, list[Value]]],
        reads: Mapping[str, Mapping[Key, Version | None]],
        scans: Mapping[str, int],
        wall: float,
    ) -> None:
        """Write ``rows``, if what was read still stands; see ``state``.

        ``reads`` are the versions that were read, ``scans`` the changes that tables had seen when all of them
        was read.
        """
        if attempt.state != "active":
            return
        for table, keys in reads.items():
            versions = self.shared[table].versions
            if any(versions.get(key) != version for key, version in keys.items()):
                self._die(attempt, f"a row of {table!r} changed after it was read")
                return
        for table, changes in scans.items():
            if self.shared[table].changes != changes:
                self._die(attempt, f"table {table!r} changed after it was read")
                return
        for table in rows:
            if self.unready(table) or set(self._copies(table)) - attempt.writing[table]:
                self._die(attempt, f"a copy of {table!r} came up")
                return
        attempt.rows = rows
        if not rows:
            self._settle_here(attempt)
            return
        latest = max(
            (self.shared[t].versions.get(key, (0, ""))[0] for t, keys in rows.items() for key in keys),
            default=0,
        )
        attempt.stamp = max(self._stamp(rows, wall), latest + 1)
        attempt.state = "voting"
        voters = sorted({name for table in rows for name in self._copies(table)})
        attempt.voters = set(voters)
        for name in voters:
            self._stage(name, attempt, reads)
            self._send(name, Prepare(attempt.number, attempt.stamp, voters))
        self._decide(attempt)

    def release(self, attempt: Attempt) -> None:
        """The attempt is over for its caller. One that is being voted on is decided all the same."""
        if attempt.state == "voting" or self.attempts.pop(attempt.number, None) is None:
            return
        for name in sorted(attempt.told & self._x.peers.keys()):
            self._send(name, End(attempt.number))
        self._verdicts(self.locks.release((self.node, attempt.number)))

    # -- what happens to tables and peers

    def drop(self, table: str) -> None:
        """This node has no such table any more; whoever works with it finds out when it begins anew."""
        self.shared.pop(table, None)
        for attempt in list(self.attempts.values()):
            if attempt.state == "active":
                self._die(attempt, f"table {table!r} was dropped")

    def peer_up(self, name: str, now: float) -> None:
        """The peer is there; again, where frames may have been lost."""
        self._now = now
        if name not in self._pipes:
            self._pipes[name] = self._pipe(name)
        self._pipes[name].open(now)

    def peer_down(self, name: str, now: float) -> None:
        """The peer is gone, with everything it had asked for and been asked."""
        self._now = now
        self._pipes.pop(name, None)
        self._broken(name)

    def tick(self, now: float) -> None:
        """Some time passed."""
        self._now = now
        for name, pipe in list(self._pipes.items()):
            if not pipe.tick(now):
                self._x.report("transactions_given_up", peer=name)
                self._pipes[name] = self._pipe(name)
                self._broken(name)
                self._pipes[name].open(now)

    def receive(self, name: str, message: Pipe, now: float) -> None:
        """An envelope of a peer that is up."""
        self._now = now
        pipe = self._pipes.get(name)
        if pipe is None:
            return
        broke, body = pipe.receive(message, now)
        if broke:
            self._broken(name)
        if body is not None:
            self._confirm[name] = None
            self._handle(name, body)

    def settle(self) -> None:
        """The event is over: confirm what was taken."""
        for name in self._confirm:
            if name in self._pipes:
                self._pipes[name].confirm()
        self._confirm.clear()

    def info(self) -> dict[str, Any]:
        """Counts, and what goes on."""
        return {
            "counts": dict(self.counts),
            "running": len(self.attempts),
            "prepared": sum(1 for part in self._parts.values() if part.stamp),
            "locks": self.locks.describe(),
        }

    # -- messages

    def _handle(self, name: str, message: TransactionMessage) -> None:
        match message:
            case Lock():
                self._on_lock(name, message)
            case Granted(number=number, request=request, version=version):
                self._on_granted(name, number, request, version)
            case Died(number=number):
                attempt = self.attempts.get(number)
                if attempt is not None and attempt.state == "active":
                    self._die(attempt, f"an older transaction has the lock at {name}")
            case Stage(number=number, table=table, rows=rows, reads=reads):
                staged = self._parts.setdefault((name, number), _Part())
                staged.rows.setdefault(table, {}).update(rows)
                staged.reads.setdefault(table, {}).update(reads)
            case Prepare():
                self._on_prepare(name, message)
            case Vote(number=number, problem=problem, again=again):
                self._on_vote(name, number, problem, again=again)
            case Commit(number=number, stamp=stamp):
                self._finish((name, number), stamp)
            case End(number=number):
                self._finish((name, number), 0)
            case Query(node=node, number=number):
                self._send(name, Know(node, number, self._knows((node, number))))
            case Know(node=node, number=number, state=state):
                part = self._parts.get((node, number))
                if part is not None and part.doubt is not None and name in part.doubt:
                    part.doubt[name] = state
                    self._resolve((node, number), part)

    def _on_lock(self, name: str, message: Lock) -> None:
        number, table = message.number, message.table
        if table not in self.shared:
            self._send(name, Died(number))
            return
        key = next(iter(message.key), WHOLE)
        owner = (name, number)
        age = (message.age, name)
        self._verdicts(self.locks.request(owner, age, message.request, table, key, write=message.write))

    def _on_granted(self, name: str, number: int, request: int, version: list[Any]) -> None:
        attempt = self.attempts.get(number)
        if attempt is None or attempt.state != "active":
            return
        attempt.pending.discard((name, request))
        table, key = attempt.asked.get(request, ("", WHOLE))
        if len(version) == 2 and table and key is not WHOLE:
            mine = self.shared[table].versions.get(key)
            if mine is None or (version[0], version[1]) > mine:
                self._die(attempt, f"{name} has a later version of the row")
                return
        if not attempt.pending:
            self._wake(attempt)

    def _on_prepare(self, name: str, message: Prepare) -> None:
        owner = (name, message.number)
        part = self._parts.setdefault(owner, _Part())
        problem, again = self._objection(owner, part, (message.stamp, name))
        if problem:
            self.counts["refused"] += 1
            self._finish(owner, 0)
        else:
            part.stamp = message.stamp
            part.peers = [peer for peer in message.peers if peer != self.node]
        self._send(name, Vote(message.number, problem, again))

    def _objection(self, owner: LockOwner, part: _Part, version: Version) -> tuple[str, bool]:
        for table, rows in part.rows.items():
            shared = self.shared.get(table)
            if shared is None:
                return f"no table {table!r}", True
            problem = self.refuses(table) if rows else ""
            if problem:
                return problem, False
            for key in rows:
                if not self.locks.holds(owner, table, key, write=True):
                    return f"a lock of {table!r} was lost", True
                if shared.versions.get(key, (0, "")) >= version:
                    return f"a row of {table!r} has a later version", True
            for key, read in part.reads.get(table, {}).items():
                mine = shared.versions.get(key)
                if mine is not None and (len(read) != 2 or mine > (read[0], read[1])):
                    return f"a row of {table!r} was read in an earlier version", True
        return "", False

    def _on_vote(self, name: str, number: int, problem: str, *, again: bool) -> None:
        attempt = self.attempts.get(number)
        if attempt is None or attempt.state != "voting":
            return
        if not problem:
            attempt.yes.add(name)
            self._decide(attempt)
            return
        attempt.state = "dead" if again else "refused"
        attempt.why = f"{name}: {problem}"
        self._undo(attempt)

    # -- the coordinator's decision

    def _decide(self, attempt: Attempt) -> None:
        """All who are still there have said yes: commit, where there is a majority."""
        if attempt.state != "voting" or not attempt.voters <= attempt.yes:
            return
        for table in attempt.rows:
            if table not in self._x.tables:
                continue
            definition = self._x.tables[table].definition
            reachable, nodes = self._reach(table)
            if definition.majority and 2 * reachable <= nodes:
                # Those who said yes may have gone on without us.
                attempt.state = "lost"
                attempt.why = table
                self.counts["lost"] += 1
                self._forget(attempt)
                return
        if not self._settle_here(attempt):
            self._undo(attempt)
            return
        self.counts["committed"] += 1
        copies = {name for table in attempt.rows for name in self._copies(table)}
        for name in sorted(copies | (attempt.told & self._x.peers.keys())):
            if name not in attempt.voters:
                # It came up since, and would see the rows one by one.
                self._stage(name, attempt, {})
            self._send(name, Commit(attempt.number, attempt.stamp))
        owner = (self.node, attempt.number)
        self._remember(owner, "committed")
        self._install(self.node, attempt.rows, attempt.stamp)
        self.attempts.pop(attempt.number, None)
        self._verdicts(self.locks.release(owner))
        self._wake(attempt)

    def _settle_here(self, attempt: Attempt) -> bool:
        """Commit, unless this node itself cannot; rows of its own tables are written in this very turn."""
        problem = attempt.objection() or next(filter(None, map(self.refuses, attempt.rows)), "")
        if problem:
            attempt.state = "refused"
            attempt.why = f"{self.node}: {problem}"
            return False
        attempt.state = "committed"
        attempt.install_local()
        return True

    def _undo(self, attempt: Attempt) -> None:
        """A participant has refused."""
        for name in sorted(attempt.told & self._x.peers.keys()):
            self._send(name, End(attempt.number))
        self._forget(attempt)

    def _forget(self, attempt: Attempt) -> None:
        self.attempts.pop(attempt.number, None)
        self._verdicts(self.locks.release((self.node, attempt.number)))
        self._wake(attempt)

    def _die(self, attempt: Attempt, why: str) -> None:
        attempt.state = "dead"
        attempt.why = why
        self.counts["died"] += 1
        self._wake(attempt)

    # -- the participant's end

    def _finish(self, owner: LockOwner, stamp: int) -> None:
        """Somebody's attempt is over; with a stamp it is committed."""
        part = self._parts.pop(owner, None)
        if part is not None and stamp:
            self._remember(owner, "committed")
            self._install(owner[0], part.rows, stamp)
        self._verdicts(self.locks.release(owner))

    def _broken(self, name: str) -> None:
        """What was said to ``name`` and by it is void."""
        for attempt in list(self.attempts.values()):
            if attempt.state == "active" and name in attempt.told:
                self._die(attempt, f"{name} is gone")
            elif attempt.state == "voting" and name in attempt.voters:
                attempt.voters.discard(name)
                self._decide(attempt)
        for owner in self.locks.owners():
            if owner[0] == name and (owner not in self._parts or not self._parts[owner].stamp):
                self._finish(owner, 0)
        for owner, staged in list(self._parts.items()):
            if owner not in self._parts:
                continue
            if not staged.stamp:
                if owner[0] == name:
                    self._finish(owner, 0)
            elif owner[0] == name and staged.doubt is None:
                self.counts["in_doubt"] += 1
                staged.doubt = {peer: "" for peer in staged.peers if peer in self._x.peers and peer != name}
                for peer in staged.doubt:
                    self._send(peer, Query(*owner))
                self._resolve(owner, staged)
            elif staged.doubt is not None and name in staged.doubt:
                del staged.doubt[name]
                self._resolve(owner, staged)

    def _resolve(self, owner: LockOwner, part: _Part) -> None:
        """The coordinator is gone: does what the others know settle it?"""
        assert part.doubt is not None  # noqa: S101
        said = list(part.doubt.values())
        commit = "committed" in said
        if not commit and "unknown" not in said:
            if "" in said:
                return
            commit = all(self._may_go_on(table, len(said)) for table in part.rows)
        self.counts["resolved"] += 1
        self._x.report(
            "transaction_resolved", coordinator=owner[0], outcome="committed" if commit else "aborted"
        )
        if not commit:
            self._remember(owner, "unknown")
        self._finish(owner, part.stamp if commit else 0)

    def _may_go_on(self, table: str, others: int) -> bool:
        if table not in self._x.tables or not self._x.tables[table].definition.majority:
            return True
        _, nodes = self._reach(table)
        return 2 * (others + 1) > nodes

    def _knows(self, owner: LockOwner) -> str:
        part = self._parts.get(owner)
        if part is not None and part.stamp:
            return "prepared"
        return self._outcomes.get(owner, "unknown")

    def _remember(self, owner: LockOwner, outcome: str) -> None:
        self._outcomes[owner] = outcome
        while len(self._outcomes) > _REMEMBERED:
            self._outcomes.popitem(last=False)

    # -- inside

    def _install(self, author: str, rows: dict[str, dict[Key, list[Value]]], stamp: int) -> None:
        for table, changes in rows.items():
            shared = self.shared.get(table)
            if shared is not None:
                change = shared.install(author, (stamp, author), changes, self._now)
                self._x.actions.append(Installed(table, tuple(changes), change))

    def _stamp(self, rows: Mapping[str, Any], wall: float) -> int:
        return max(self.shared[table].tick_clock(wall) for table in rows)

    def _copies(self, table: str) -> list[str]:
        """The peers that are up and have a copy."""
        if table not in self._x.tables:
            return []
        replicas = self._x.tables[table].replicas
        return [
            name
            for name, peer in self._x.peers.items()
            if peer.tables is not None
            and table in peer.tables
            and name in replicas
            and replicas[name].refused is None
        ]

    def _stage(self, name: str, attempt: Attempt, reads: Mapping[str, Mapping[Key, Version | None]]) -> None:
        for table in {**attempt.rows, **reads}:
            if name not in self._copies(table):
                continue
            read = {key: list(version or ()) for key, version in reads.get(table, {}).items()}
            rows: dict[Key, list[Value]] = {}
            size = 0
            for key, value in attempt.rows.get(table, {}).items():
                rows[key] = value
                size += len(encode((key, value)))
                if size > _STAGE_BYTES or len(rows) >= _STAGE_ROWS:
                    self._send(name, Stage(attempt.number, table, rows, {}))
                    rows, size = {}, 0
            while len(read) > _STAGE_ROWS:
                some = {key: read.pop(key) for key in list(read)[:_STAGE_ROWS]}
                self._send(name, Stage(attempt.number, table, {}, some))
            if rows or read:
                self._send(name, Stage(attempt.number, table, rows, read))

    def _verdicts(self, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            node, number = verdict.owner
            if node == self.node:
                attempt = self.attempts.get(number)
                if attempt is None or attempt.state != "active":
                    continue
                if not verdict.granted:
                    self._die(attempt, "an older transaction has the lock")
                    continue
                attempt.pending.discard((self.node, verdict.request))
                if not attempt.pending:
                    self._wake(attempt)
            elif node in self._x.peers:
                if not verdict.granted:
                    self._send(node, Died(number))
                    continue
                shared = self.shared.get(verdict.table)
                version = None if shared is None else shared.versions.get(verdict.key)
                self._send(node, Granted(number, verdict.request, list(version or ())))

    def _wake(self, attempt: Attempt) -> None:
        self._x.actions.append(Wake(attempt.number))

    def _send(self, name: str, message: TransactionMessage) -> None:
        pipe = self._pipes.get(name)
        if pipe is not None:
            pipe.send(message, self._now)

    def _pipe(self, name: str) -> PipeEnd:
        def session() -> int:
            self._sessions += 1
            return self._sessions

        def send(pipe: Pipe) -> None:
            peer = self._x.peers.get(name)
            if peer is not None:
                peer.outbox.append(encode(pipe))

        return PipeEnd(session, send, retry=self._retry)
