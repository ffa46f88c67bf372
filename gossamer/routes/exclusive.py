"""Exclusive subscriptions: ``$exclusive/a/b`` is a subscription to ``a/b`` of one client in the cluster.

Its claim is a row of the ``routes`` table: key ``$exclusive/filter``, value the time of the claim and the
client. A claim that another node has is refused at once. If two nodes claim concurrently, or on both sides of
a split, one rule decides on both as soon as they see each other: *the earlier claim stays, of equal ones that
of the lesser node name*; the other subscription ends, is counted, and reported to its subscriber.

Rules: 1. Only exclusive subscriptions exclude each other; ordinary subscribers to ``a/b`` get its messages
too. For one client the two are one subscription.  2. A client that moves to another node keeps its claim: one
client does not exclude itself.  3. A node that is down keeps its claims for as long as its rows are kept (the
grace time of tables).  4. Filters are compared as text: ``+/b`` does not exclude ``a/b``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gossamer.errors import UnavailableError
from gossamer.mnesia_like import OwnedTable
from gossamer.routes.delivery import Subscriber
from gossamer.routes.topics import EXCLUSIVE, InvalidTopicFilter

Claim = tuple[int, str]
"""Time of a claim, in microseconds of the day, and its client; "" for one without a name."""


class ExclusiveTakenError(UnavailableError):
    """Another client has this exclusive subscription, or the node's limit is reached."""

    def __init__(self, topic_filter: str, *, holder: str, limit: int = 0) -> None:
        self.topic_filter = topic_filter
        self.holder = holder
        self.limit = limit
        why = f"this node has its {limit} exclusive subscriptions" if limit else f"{holder} has it"
        super().__init__(f"{EXCLUSIVE}{topic_filter}: {why}; subscribe once it is free")


def is_exclusive(topic_filter: str) -> bool:
    """Return whether a filter is that of an exclusive subscription."""
    return topic_filter.startswith(EXCLUSIVE)


class ExclusiveClaims:
    """Claims of this node, at most ``limit``. ``wall()`` returns the time of day, in seconds."""

    def __init__(self, node: str, *, limit: int, wall: Callable[[], float]) -> None:
        self._node = node
        self._limit = limit
        self._wall = wall
        self._mine: dict[str, tuple[Subscriber, Claim]] = {}

    def __len__(self) -> int:
        return len(self._mine)

    def claim(self, body: str, subscriber: Subscriber, table: OwnedTable | None) -> list[int | str]:
        """Claim a filter; return the value of its row.

        Raises:
            InvalidTopicFilter: the limit is 0.
            ExclusiveTakenError: another client has it, or the limit is reached.
        """
        if not self._limit:
            raise InvalidTopicFilter(EXCLUSIVE + body, "no exclusive subscription: this node allows none")
        client = _name_of(subscriber)
        known = self._mine.get(body)
        if known is not None:
            if known[0] is not subscriber:
                raise ExclusiveTakenError(body, holder="another client of this node")
            return [*known[1]]
        if len(self._mine) >= self._limit:
            raise ExclusiveTakenError(body, holder=self._node, limit=self._limit)
        others = [] if table is None else [(o, table.rows_of(o)) for o in table.owners() if o != self._node]
        for owner, rows in others:
            shown = _claim_of(rows.get(EXCLUSIVE + body))
            if shown is not None and (not client or shown[1] != client):
                raise ExclusiveTakenError(body, holder=f"a client of {owner}")
        claim = int(self._wall() * 1e6), client
        self._mine[body] = (subscriber, claim)
        return [*claim]

    def release(self, body: str, subscriber: object) -> bool:
        """Release a claim; False: this subscriber has none."""
        known = self._mine.get(body)
        if known is None or known[0] is not subscriber:
            return False
        del self._mine[body]
        return True

    def held_by(self, subscriber: object) -> list[str]:
        """Return the filters that a subscriber has claimed."""
        return [body for body, (holder, _) in self._mine.items() if holder is subscriber]

    def row(self, key: str) -> list[int | str] | None:
        """Return the value that this node's row of ``$exclusive/filter`` should have; None: no row."""
        known = self._mine.get(key[len(EXCLUSIVE) :])
        return None if known is None else [*known[1]]

    def keys(self) -> Iterator[str]:
        """Yield the keys of the rows that should exist."""
        return (EXCLUSIVE + body for body in tuple(self._mine))

    def beaten(self, owner: str, rows: Mapping[object, object]) -> list[tuple[str, Subscriber]]:
        """Return filter and subscriber of this node's claims that lose against rows of another."""
        found = []
        for key in rows if self._mine else ():
            body = key[len(EXCLUSIVE) :] if type(key) is str and is_exclusive(key) else ""
            known, theirs = self._mine.get(body), _claim_of(rows[key])
            if known is None or theirs is None:
                continue
            subscriber, mine = known
            if mine[1] and mine[1] == theirs[1]:
                continue
            if (theirs[0], owner) < (mine[0], self._node):
                found.append((body, subscriber))
        return found


def _claim_of(value: object) -> Claim | None:
    """Return the claim in a row of another node; None: the row is malformed."""
    match value:
        case [int(at), str(client)] if type(at) is int:
            return at, client
    return None


def _name_of(subscriber: object) -> str:
    name = getattr(subscriber, "client_id", "")
    return name if isinstance(name, str) else ""
