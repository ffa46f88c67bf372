"""Transactions over the connected copies of shared tables, as one state machine: strict two-phase locking.

A transaction reads its node's own copy under a lock held there, and writes under locks held at every
connected copy. To commit, its coordinator stages the rows at all of them and calls for votes; when all voted
yes it writes its own copy and sends the decision to the others, and each releases the locks as it writes.
Later reads on any node see the rows. All rows of one transaction carry one version, later than any they
replace, so that in a merge after a split they win or lose against single writes like any row.

When a participant goes down, the rest continue: it merges when it comes back. When the coordinator goes
down, the participants that voted yes decide (see ``participant``). A table with ``majority=True`` commits on
the side that has most of its nodes; a coordinator that lost that side after calling for votes cannot know
the outcome, and reports it as in doubt.

Rules: 1. Pure, except for the tables themselves, which it reads and writes.  2. Locks never form cycles (see
``locks``).  3. Single writes outside of transactions skip the locks; what was read is therefore validated
before a commit, here and at each participant, and a difference restarts the attempt.  4. A copy that came up
meanwhile holds no locks: the attempt restarts, with it.

Rejected: one lock server (a hop for each lock, and an election when it dies); optimistic validation alone
(the more nodes, the more work is thrown away, and the oldest transaction has no priority).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gossamer.mnesia_like.replication.exchange import AttemptSignal, Exchange
from gossamer.mnesia_like.replication.wire import (
    Commit,
    Died,
    Granted,
    Lock,
    Outcome,
    Prepare,
    Query,
    Stage,
    TransactionMessage,
    Vote,
)
from gossamer.mnesia_like.shared.versions import Version
from gossamer.mnesia_like.transaction.locks import WHOLE, Age, LockDecision
from gossamer.mnesia_like.transaction.participant import Attempt, Participant, StagedAttempt
from gossamer.mnesia_like.values import Key, Value, encode

_STAGE_ROWS = 500
_STAGE_BYTES = 64 * 1024


class Transactions(Participant):
    """Coordinator of this node's transactions, and participant in those of other nodes."""

    def __init__(self, exchange: Exchange, *, node: str) -> None:
        super().__init__(exchange, node=node)
        self.attempts: dict[int, Attempt] = {}
        self._numbers = 0
        self._requests = 0

    # -- operations of this node's own transactions

    def begin(self, age: Age) -> Attempt:
        """Begin a new attempt."""
        self._numbers += 1
        attempt = self.attempts[self._numbers] = Attempt(self._numbers, age)
        return attempt

    def unready(self, table: str) -> str:
        """Describe why this copy of ``table`` may lack rows; empty: it is complete."""
        state = self._x.tables[table]
        for name, peer in self._x.peers.items():
            replica = state.replicas.get(name)
            if replica is not None and replica.forced:
                continue
            if peer.tables is None or replica is None or not replica.answered:
                return f"{name} has not said whether it has table {table!r}"
            if replica.refused is None and not replica.caught_up:
                return replica.waits_for()
        return ""

    def lock(self, attempt: Attempt, table: str, key: Key, *, write: bool) -> None:
        """Lock a row (WHOLE: the table) here, and to write also at each connected copy; see ``waiting``."""
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
            attempt.lock_requests[request] = (table, key)
            for name in there:
                attempt.pending.add((name, request))
                attempt.contacted.add(name)
                where = {} if key is WHOLE else {key: None}
                self._send(name, Lock(attempt.number, request, attempt.age[0], table, where, write))
        attempt.pending.add((self.node, request))
        owner = (self.node, attempt.number)
        self._apply(self.locks.request(owner, attempt.age, request, table, key, write=write))

    def commit(
        self,
        attempt: Attempt,
        rows: dict[str, dict[Key, list[Value]]],
        reads: Mapping[str, Mapping[Key, Version | None]],
        wall: float,
    ) -> None:
        """Commit ``rows``, if the versions in ``reads`` are still current; see ``state``."""
        if attempt.state != "active":
            return
        for table in rows:
            if self.unready(table) or set(self._copies(table)) - attempt.writing[table]:
                self._die(attempt, f"a copy of {table!r} came up")
                return
        attempt.rows = rows
        if not rows:
            self._commit_here(attempt)
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
        """End the attempt for its caller. One that is being voted on is still decided."""
        if attempt.state != "voting" and attempt.number in self.attempts:
            self._undo(attempt)

    # -- events of tables and peers

    def drop(self, table: str) -> None:
        """Remove a table from this node, and restart the active attempts."""
        self.shared.pop(table, None)
        for attempt in list(self.attempts.values()):
            if attempt.state == "active":
                self._die(attempt, f"table {table!r} was dropped")

    # -- messages

    def receive(self, name: str, message: TransactionMessage, now: float) -> None:
        """Handle a message of a peer that is up."""
        self._now = now
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
                staged = self._staged.setdefault((name, number), StagedAttempt())
                staged.rows.setdefault(table, {}).update(rows)
                staged.reads.setdefault(table, {}).update(reads)
            case Prepare():
                self._on_prepare(name, message)
            case Vote(number=number, problem=problem, retry=retry):
                self._on_vote(name, number, problem, retry=retry)
            case Commit(number=number, stamp=stamp):
                self._finish((name, number), stamp)
            case Query(node=node, number=number):
                self._send(name, Outcome(node, number, self._outcome_of((node, number))))
            case Outcome(node=node, number=number, state=state):
                prepared = self._staged.get((node, number))
                if prepared is not None and prepared.answers is not None and name in prepared.answers:
                    prepared.answers[name] = state
                    self._resolve((node, number), prepared)

    def _on_granted(self, name: str, number: int, request: int, version: list[object]) -> None:
        attempt = self.attempts.get(number)
        if attempt is None or attempt.state != "active":
            return
        attempt.pending.discard((name, request))
        table, key = attempt.lock_requests.get(request, ("", WHOLE))
        if len(version) == 2 and table and key is not WHOLE:
            mine = self.shared[table].versions.get(key)
            if mine is None or (version[0], version[1]) > mine:
                self._die(attempt, f"{name} has a later version of the row")
                return
        if not attempt.pending:
            self._signal(attempt)

    def _on_vote(self, name: str, number: int, problem: str, *, retry: bool) -> None:
        attempt = self.attempts.get(number)
        if attempt is None or attempt.state != "voting":
            return
        if not problem:
            attempt.yes.add(name)
            self._decide(attempt)
            return
        attempt.state = "dead" if retry else "refused"
        attempt.why = f"{name}: {problem}"
        self._undo(attempt)

    # -- the coordinator's decision

    def _decide(self, attempt: Attempt) -> None:
        """Commit once all remaining voters voted yes, if there is a majority."""
        if attempt.state != "voting" or not attempt.voters <= attempt.yes:
            return
        for table in attempt.rows:
            if table not in self._x.tables:
                continue
            definition = self._x.tables[table].definition
            reachable, nodes = self._x.reachable_nodes(table)
            if definition.majority and 2 * reachable <= nodes:
                # Those that voted yes may have decided without us.
                attempt.state = "lost"
                attempt.why = table
                self.counts["lost"] += 1
                self._forget(attempt)
                return
        if not self._commit_here(attempt):
            self._undo(attempt)
            return
        self.counts["committed"] += 1
        copies = {name for table in attempt.rows for name in self._copies(table)}
        for name in sorted(copies | (attempt.contacted & self._x.peers.keys())):
            if name not in attempt.voters:
                # It came up since, and would see the rows one by one.
                self._stage(name, attempt, {})
            self._send(name, Commit(attempt.number, attempt.stamp))
        owner = (self.node, attempt.number)
        self._remember(owner, "committed")
        self._install(self.node, attempt.rows, attempt.stamp)
        self.attempts.pop(attempt.number, None)
        self._apply(self.locks.release(owner))
        self._signal(attempt)

    def _commit_here(self, attempt: Attempt) -> bool:
        """Commit here unless this node itself cannot; rows of its local tables are written in this turn."""
        problem = attempt.objection() or next(filter(None, map(self.refuses, attempt.rows)), "")
        if problem:
            attempt.state = "refused"
            attempt.why = f"{self.node}: {problem}"
            return False
        attempt.state = "committed"
        attempt.install_local()
        return True

    def _undo(self, attempt: Attempt) -> None:
        """Abort the attempt at all nodes that it contacted."""
        for name in sorted(attempt.contacted & self._x.peers.keys()):
            self._send(name, Commit(attempt.number, 0))
        self._forget(attempt)

    def _forget(self, attempt: Attempt) -> None:
        self.attempts.pop(attempt.number, None)
        self._apply(self.locks.release((self.node, attempt.number)))
        self._signal(attempt)

    def _die(self, attempt: Attempt, why: str) -> None:
        attempt.state = "dead"
        attempt.why = why
        self.counts["died"] += 1
        self._signal(attempt)

    def peer_down(self, name: str, now: float) -> None:
        """Handle the end of the session with a peer: all messages in it are void."""
        self._now = now
        for attempt in list(self.attempts.values()):
            if attempt.state == "active" and name in attempt.contacted:
                self._die(attempt, f"{name} is gone")
            elif attempt.state == "voting" and name in attempt.voters:
                attempt.voters.discard(name)
                self._decide(attempt)
        self._resolve_for(name)

    # -- inside

    def _stamp(self, tables: Iterable[str], wall: float) -> int:
        return max(self.shared[table].tick_clock(wall) for table in tables)

    def _copies(self, table: str) -> list[str]:
        """Return the peers that are up and have a copy."""
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
            rows: dict[Key, list[object]] = {}
            read: dict[Key, list[object]] = {}
            size = 0
            # One after the other: a row, and its key a second time, may exceed a frame.
            wanted: tuple[tuple[dict[Key, list[object]], Mapping[Key, object]], ...]
            wanted = (rows, attempt.rows.get(table, {})), (read, reads.get(table, {}))
            for staged, found in wanted:
                for key, value in found.items():
                    more = len(encode((key, value)))
                    if size and (size + more > _STAGE_BYTES or len(rows) + len(read) >= _STAGE_ROWS):
                        self._send(name, Stage(attempt.number, table, rows, read))
                        rows.clear()
                        read.clear()
                        size = 0
                    staged[key] = list(value or ())
                    size += more
            if rows or read:
                self._send(name, Stage(attempt.number, table, rows, read))

    def _apply(self, decisions: list[LockDecision]) -> None:
        for decision in decisions:
            node, number = decision.owner
            if node == self.node:
                attempt = self.attempts.get(number)
                if attempt is None or attempt.state != "active":
                    continue
                if not decision.granted:
                    self._die(attempt, "an older transaction has the lock")
                    continue
                attempt.pending.discard((self.node, decision.request))
                if not attempt.pending:
                    self._signal(attempt)
            elif node in self._x.peers:
                if not decision.granted:
                    self._send(node, Died(number))
                    continue
                shared = self.shared.get(decision.table)
                version = None if shared is None else shared.versions.get(decision.key)
                self._send(node, Granted(number, decision.request, list(version or ())))

    def _signal(self, attempt: Attempt) -> None:
        self._x.actions.append(AttemptSignal(attempt.number))
