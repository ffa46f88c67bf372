"""Read and write locks of one node, without a clock and without deadlock.

Wait-die (Rosenkrantz, Stearns, Lewis 1978): every owner has an age that it keeps through all its attempts. A
request for a lock of a younger owner waits; a request for a lock of an older one dies, and restarts with its
old age. So waits only ever point from older to younger, on all nodes alike: no cycle can form, none has to
be detected, and the oldest always gets through.

Rules: 1. Pure.  2. Read locks are shared, all others exclusive.  3. A lock of the whole table excludes like
locks of all its rows.  4. A request behind an older waiting one dies too: else readers could starve a writer
forever.

Rejected: cycle detection (needs all waits in one place); locks in a fixed order (needs to know in advance
which rows a transaction will touch).
"""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.mnesia_like.values import Key

LockOwner = tuple[str, int]
"""The coordinator's name and its number for the attempt."""

Age = tuple[int, str]
"""Time and node of the transaction's first attempt: smaller is older."""


class _Whole:
    def __repr__(self) -> str:
        return "WHOLE"


WHOLE: Key = _Whole()
"""Stands for the whole table in place of a key."""


@dataclass(frozen=True, slots=True)
class LockDecision:
    """Result of a lock request: granted, or its owner must die; ``request`` is the request's number."""

    owner: LockOwner
    request: int
    table: str
    key: Key
    granted: bool


@dataclass(slots=True)
class _Request:
    owner: LockOwner
    age: Age
    number: int
    key: Key
    write: bool

    def decision(self, table: str, *, granted: bool) -> LockDecision:
        return LockDecision(self.owner, self.number, table, self.key, granted)


class _Table:
    """Locks of one table: key to owner to write flag."""

    __slots__ = ("held", "waiting")

    def __init__(self) -> None:
        self.held: dict[Key, dict[LockOwner, bool]] = {}
        self.waiting: list[_Request] = []


class LockManager:
    """Read and write locks of one node, on rows and on whole tables, granted by wait-die."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._ages: dict[LockOwner, Age] = {}
        # Per owner the tables, and keys in them, that it holds or waits for.
        self._of: dict[LockOwner, dict[str, set[Key]]] = {}

    def request(
        self, owner: LockOwner, age: Age, number: int, table: str, key: Key, *, write: bool
    ) -> list[LockDecision]:
        """Request a lock; no decision for this request means that it waits."""
        self._ages[owner] = age
        self._of.setdefault(owner, {}).setdefault(table, set())
        entry = self._tables.get(table)
        if entry is None:
            entry = self._tables[table] = _Table()
        if self._has(entry, owner, key, write=write):
            return [LockDecision(owner, number, table, key, granted=True)]
        entry.waiting.append(_Request(owner, age, number, key, write))
        entry.waiting.sort(key=lambda request: request.age)
        return self._decide(table, entry)

    def release(self, owner: LockOwner) -> list[LockDecision]:
        """Release everything ``owner`` has or waits for; return the decisions for waiting requests."""
        decisions: list[LockDecision] = []
        self._ages.pop(owner, None)
        for table, keys in self._of.pop(owner, {}).items():
            entry = self._tables.get(table)
            if entry is None:
                # It died waiting, and the owner that it waited for has released since.
                continue
            for key in keys:
                owners = entry.held[key]
                del owners[owner]
                if not owners:
                    del entry.held[key]
            entry.waiting = [request for request in entry.waiting if request.owner != owner]
            decisions += self._decide(table, entry)
            if not entry.held and not entry.waiting:
                del self._tables[table]
        return decisions

    def holds(self, owner: LockOwner, table: str, key: Key, *, write: bool) -> bool:
        """Return whether ``owner`` has that lock, or one that covers it."""
        entry = self._tables.get(table)
        return entry is not None and self._has(entry, owner, key, write=write)

    def owners(self) -> list[LockOwner]:
        """Return all owners that have a lock or wait for one."""
        return list(self._of)

    # -- inside

    def _has(self, entry: _Table, owner: LockOwner, key: Key, *, write: bool) -> bool:
        for place in (key, WHOLE):
            mode = entry.held.get(place, {}).get(owner)
            if mode is not None and (mode or not write):
                return True
        return False

    def _decide(self, table: str, entry: _Table) -> list[LockDecision]:
        """Decide waiting requests, oldest first: grant, wait, or die."""
        decisions: list[LockDecision] = []
        still: list[_Request] = []
        dead: set[LockOwner] = set()
        for request in entry.waiting:
            if request.owner in dead:
                continue
            blockers = self._blockers(entry, request)
            behind = any(_clash(request, other) for other in still)
            if behind or any(self._ages[owner] < request.age for owner in blockers):
                dead.add(request.owner)
                decisions.append(request.decision(table, granted=False))
            elif blockers:
                still.append(request)
            else:
                owners = entry.held.setdefault(request.key, {})
                owners[request.owner] = request.write or owners.get(request.owner, False)
                self._of[request.owner][table].add(request.key)
                decisions.append(request.decision(table, granted=True))
        entry.waiting = [request for request in still if request.owner not in dead]
        return decisions

    def _blockers(self, entry: _Table, request: _Request) -> list[LockOwner]:
        if request.key is WHOLE:
            places = list(entry.held.values())
        else:
            places = [entry.held[key] for key in (request.key, WHOLE) if key in entry.held]
        return [
            owner
            for owners in places
            for owner, write in owners.items()
            if owner != request.owner and (write or request.write)
        ]


def _clash(one: _Request, other: _Request) -> bool:
    return (
        one.owner != other.owner
        and (one.write or other.write)
        and (one.key is WHOLE or other.key is WHOLE or one.key == other.key)
    )
