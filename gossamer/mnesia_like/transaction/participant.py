"""Participation in transactions of other nodes: locks granted, rows staged, votes, and doubt.

A participant that voted yes waits for the coordinator's decision. When the coordinator goes down, the voters
ask each other: if one has committed, or all live ones are prepared, all commit; if one does not know the
attempt, none does. For a table with ``majority=True`` that takes most of its nodes.

Rules: 1. Pure, except for the tables themselves.  2. A vote is binding: until the decision nothing here can
make the rows unwritable.  3. Outcomes are remembered for a while, for late questions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gossamer.mnesia_like.replication.exchange import Exchange, Installed
from gossamer.mnesia_like.replication.wire import (
    Died,
    Lock,
    Prepare,
    Query,
    TransactionMessage,
    Vote,
)
from gossamer.mnesia_like.shared.shared import Shared
from gossamer.mnesia_like.shared.versions import Version
from gossamer.mnesia_like.transaction.locks import WHOLE, Age, LockDecision, LockManager, LockOwner
from gossamer.mnesia_like.values import Key, Value, encode

GONE: list[Value] = []
"""Stands for a deleted row in place of ``[value]``."""


def _no_objection() -> str:
    return ""


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Attempt:
    """Attempt of a transaction of this node.

    ``state``: ``active``, ``dead`` (restart it), ``refused`` (a restart would not help), ``voting``,
    ``committed``, ``lost`` (the majority is gone and the outcome is unknown here).
    """

    number: int
    age: Age
    state: str = "active"
    why: str = ""
    # (peer, request) of locks requested and not granted.
    pending: set[tuple[str, int]] = field(default_factory=set)
    # Per table locked for writing: the nodes where it is.
    writing: dict[str, set[str]] = field(default_factory=dict)
    # Nodes that were sent something of this attempt.
    contacted: set[str] = field(default_factory=set)
    lock_requests: dict[int, tuple[str, Key]] = field(default_factory=dict)
    rows: dict[str, dict[Key, list[Value]]] = field(default_factory=dict)
    voters: set[str] = field(default_factory=set)
    yes: set[str] = field(default_factory=set)
    stamp: int = 0
    # Rows of this node's local tables: a check whether they can be written, and the write.
    objection: Callable[[], str] = _no_objection
    install_local: Callable[[], None] = _nothing

    @property
    def waiting(self) -> bool:
        """True while locks or votes are outstanding."""
        return self.state == "voting" or (self.state == "active" and bool(self.pending))


_REMEMBERED = 10_000


@dataclass(slots=True)
class StagedAttempt:
    """Rows staged here for another node's attempt."""

    rows: dict[str, dict[Key, list[Value]]] = field(default_factory=dict)
    reads: dict[str, dict[Key, list[object]]] = field(default_factory=dict)
    stamp: int = 0
    peers: list[str] = field(default_factory=list)
    # None while the coordinator is up; then the answers of the other voters, by name.
    answers: dict[str, str] | None = None


class Participant:
    """Participant in two-phase commits of other nodes.

    ``refuses`` returns why a table cannot be written now; empty if it can.
    """

    def __init__(self, exchange: Exchange, *, node: str) -> None:
        self._x = exchange
        self.node = node
        self.shared: dict[str, Shared] = {}
        self.locks = LockManager()
        self.counts = {"committed": 0, "died": 0, "in_doubt": 0, "lost": 0, "refused": 0, "resolved": 0}
        self.refuses: Callable[[str], str] = lambda table: ""
        self._staged: dict[LockOwner, StagedAttempt] = {}
        self._outcomes: OrderedDict[LockOwner, str] = OrderedDict()
        self._now = 0.0

    def tick(self, now: float) -> None:
        """Set the current time."""
        self._now = now

    def _send(self, name: str, message: TransactionMessage) -> None:
        peer = self._x.peers.get(name)
        if peer is not None:
            peer.outbox.append(encode(message))

    # -- supplied by the coordinator of the same node

    def _apply(self, decisions: list[LockDecision]) -> None:
        raise NotImplementedError

    # -- messages

    def _on_lock(self, name: str, message: Lock) -> None:
        number, table = message.number, message.table
        if table not in self.shared:
            self._send(name, Died(number))
            return
        key = next(iter(message.key), WHOLE)
        owner = (name, number)
        age = (message.age, name)
        self._apply(self.locks.request(owner, age, message.request, table, key, write=message.write))

    def _on_prepare(self, name: str, message: Prepare) -> None:
        owner = (name, message.number)
        staged = self._staged.setdefault(owner, StagedAttempt())
        problem, retry = self._objection(owner, staged, (message.stamp, name))
        if problem:
            self.counts["refused"] += 1
            self._finish(owner, 0)
        else:
            staged.stamp = message.stamp
            staged.peers = [peer for peer in message.peers if peer != self.node]
        self._send(name, Vote(message.number, problem, retry))

    def _objection(self, owner: LockOwner, staged: StagedAttempt, version: Version) -> tuple[str, bool]:
        for table, rows in staged.rows.items():
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
            for key, read in staged.reads.get(table, {}).items():
                mine = shared.versions.get(key)
                if mine is not None and (len(read) != 2 or mine > (read[0], read[1])):
                    return f"a row of {table!r} was read in an earlier version", True
        return "", False

    # -- the end

    def _finish(self, owner: LockOwner, stamp: int) -> None:
        """End another node's attempt; with a stamp it is committed."""
        staged = self._staged.pop(owner, None)
        if staged is not None and stamp:
            self._remember(owner, "committed")
            self._install(owner[0], staged.rows, stamp)
        self._apply(self.locks.release(owner))

    def _resolve_for(self, name: str) -> None:
        """Resolve the attempts of a node that is down, and drop questions sent to it."""
        for owner in self.locks.owners():
            if owner[0] == name and (owner not in self._staged or not self._staged[owner].stamp):
                self._finish(owner, 0)
        for owner, staged in list(self._staged.items()):
            if owner not in self._staged:
                continue
            if not staged.stamp:
                if owner[0] == name:
                    self._finish(owner, 0)
            elif owner[0] == name and staged.answers is None:
                self.counts["in_doubt"] += 1
                staged.answers = {peer: "" for peer in staged.peers if peer in self._x.peers and peer != name}
                for peer in staged.answers:
                    self._send(peer, Query(*owner))
                self._resolve(owner, staged)
            elif staged.answers is not None and name in staged.answers:
                del staged.answers[name]
                self._resolve(owner, staged)

    def _resolve(self, owner: LockOwner, staged: StagedAttempt) -> None:
        """Decide an attempt whose coordinator is down, if the others' answers allow it."""
        assert staged.answers is not None  # noqa: S101
        said = list(staged.answers.values())
        commit = "committed" in said
        if not commit and "unknown" not in said:
            if "" in said:
                return
            commit = all(self._may_go_on(table, len(said)) for table in staged.rows)
        self.counts["resolved"] += 1
        self._x.report(
            "transaction_resolved", coordinator=owner[0], outcome="committed" if commit else "aborted"
        )
        if not commit:
            self._remember(owner, "unknown")
        self._finish(owner, staged.stamp if commit else 0)

    def _may_go_on(self, table: str, others: int) -> bool:
        if table not in self._x.tables or not self._x.tables[table].definition.majority:
            return True
        _, nodes = self._x.reachable_nodes(table)
        return 2 * (others + 1) > nodes

    def _outcome_of(self, owner: LockOwner) -> str:
        staged = self._staged.get(owner)
        if staged is not None and staged.stamp:
            return "prepared"
        return self._outcomes.get(owner, "unknown")

    def _remember(self, owner: LockOwner, outcome: str) -> None:
        self._outcomes[owner] = outcome
        while len(self._outcomes) > _REMEMBERED:
            self._outcomes.popitem(last=False)

    def _install(self, author: str, rows: dict[str, dict[Key, list[Value]]], stamp: int) -> None:
        for table, changes in rows.items():
            shared = self.shared.get(table)
            if shared is not None:
                change = shared.install(author, (stamp, author), changes, self._now)
                self._x.actions.append(Installed(table, tuple(changes), change))
