"""Is a history linearizable: could each operation have taken effect at one moment between call and return?

Wing and Gong's search ("Testing and Verifying Concurrent Objects", 1993) with the memory of Lowe and of
Porcupine: an order that leads to a set of operations and a state that were met before is not tried again. The
history of each key is judged for itself, which is enough (Herlihy and Wing, 1990, locality).

Rules: 1. Times that are equal overlap.  2. Each operation writes a value of its own, and its outcome is the
value that the key has after it, whether it wrote or not.  3. An operation whose outcome is not known took
effect before anybody saw its value, or, if nobody did, need not have: whatever follows it shows its value,
until a put writes over it. So none is left open to the end of time, which would double the search each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

Op = Literal["get", "put", "append", "cas"]


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of a client on a key, with its outcome, the value after it; None if that is not known."""

    client: int
    op: Op
    key: str
    value: str
    expected: str
    outcome: str | None
    called: float
    returned: float = inf

    def __str__(self) -> str:
        given = f"{self.expected!r} to {self.value!r}" if self.op == "cas" else repr(self.value)
        given = "" if self.op == "get" else f" {given}"
        span = f"{self.called:.4f} to {self.returned:.4f}"
        return f"client {self.client}: {self.op} {self.key}{given} = {self.outcome!r}, {span}"


def step(state: str, op: Op, value: str, expected: str) -> str:
    """Return the value of a key after an operation, which is its outcome too."""
    match op:
        case "get":
            return state
        case "put":
            return value
        case "append":
            return state + value
        case "cas":
            return value if state == expected else state


def violation(history: Iterable[Operation]) -> str:
    """Return what cannot be put in an order, blank if everything can."""
    keys: dict[str, list[Operation]] = {}
    for operation in history:
        keys.setdefault(operation.key, []).append(operation)
    for key, operations in sorted(keys.items()):
        stuck = _stuck(list(_bounded(operations)))
        if stuck is not None:
            return f"key {key}: no order of its {len(operations)} operations has {stuck}"
    return ""


def _bounded(operations: list[Operation]) -> Iterator[Operation]:
    """Give each operation without an outcome its end, by rule 3."""
    for operation in operations:
        if operation.outcome is None:
            end = _seen(operation.value, operations, frozenset())
            if end == inf:
                continue
            operation = replace(operation, returned=end)
        yield operation


def _seen(value: str, operations: list[Operation], asked: frozenset[str]) -> float:
    """Return when a value had been seen: in an outcome, or by a ``cas`` that expected it and took effect."""
    ends = [inf]
    for one in operations:
        if one.outcome and value in one.outcome:
            ends.append(one.returned)
        elif one.op == "cas" and value in one.expected and one.value not in asked:
            ends.append(_seen(one.value, operations, asked | {value, one.value}))
    return min(ends)


def _stuck(operations: list[Operation]) -> Operation | None:
    """Return the operation before whose return the longest order ends; None if an order has them all."""
    calls = sorted((operation.called, 0, place) for place, operation in enumerate(operations))
    returns = sorted((operation.returned, 1, place) for place, operation in enumerate(operations))
    events = sorted([*calls, *returns])
    count = len(events)
    # A doubly linked list of the events that are not ordered yet, with a sentinel at both ends.
    after, before = list(range(1, count + 3)), list(range(-1, count + 1))
    where = {(kind, place): number for number, (_, kind, place) in enumerate(events, 1)}

    def take_out(place: int) -> None:
        for kind in (0, 1):
            number = where[kind, place]
            after[before[number]], before[after[number]] = after[number], before[number]

    def put_back(place: int) -> None:
        for kind in (1, 0):
            number = where[kind, place]
            after[before[number]] = before[after[number]] = number

    chosen: list[tuple[int, str]] = []
    seen: set[tuple[int, str]] = set()
    done, state = 0, ""
    longest, stuck = -1, None
    current = after[0]
    while after[0] != count + 1:
        _, kind, place = events[current - 1]
        if kind == 0:
            operation = operations[place]
            next_state = step(state, operation.op, operation.value, operation.expected)
            known = (done | 1 << place, next_state)
            if operation.outcome in (None, next_state) and known not in seen:
                seen.add(known)
                chosen.append((place, state))
                done, state = known
                take_out(place)
                current = after[0]
            else:
                current = after[current]
            continue
        # Something returned that is in no order so far: the last choice was wrong, or there is none.
        if len(chosen) > longest:
            longest, stuck = len(chosen), operations[place]
        if not chosen:
            return stuck
        last, state = chosen.pop()
        done &= ~(1 << last)
        put_back(last)
        current = after[where[0, last]]
    return None
