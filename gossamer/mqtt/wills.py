"""Wills of a cluster: when a node dies, another one publishes what its clients left to be said.

Every will of a connected client is a row of its node in the *owned* table ``wills``, so that all nodes hold
it. When a node goes down without a goodbye, the first survivor by name *adopts* its rows: it writes them as
rows of its own, waits out the grace and each will's delay, publishes, and deletes them. The others remember
what they saw, until they see it adopted; should the adopter go down before, the next one adopts.

Rules: 1. A side that holds less than half of the nodes it last saw together publishes nothing: it is more
likely to be the one that was cut off.  2. A node that is back within the grace, in the same life, keeps its
wills: nothing of it died.  3. A delayed will is dropped where its client is connected again, anywhere
([MQTT-3.1.3-9]): the node it comes to tells the others, when it comes or when it learns of the death, which
may be later. One without delay is not: its connection did end ([MQTT-3.1.2-8]).  4. A node that leaves in
order publishes its own.  5. A node that comes back in a new life has on disc what the wills of its persistent
sessions were. It publishes them itself only if no node that was up with it then is up in the same life now:
such a node has seen it die, and whoever is first among those has adopted them. Until that is decided they
stay on disc, each with those who were up then: this life may end sooner.

Pure: events in, with the time; what is to be published comes out of :meth:`Wills.due`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["GRACE_OF_FORMER", "Former", "Wills", "WillsTable"]

SETTLED_AFTER = 60.0
"""Seconds without a loss, after which the nodes that are left are all there are."""
GRACE_OF_FORMER = 5.0
"""Seconds that the will of a former life waits at least."""
WITNESSES_WITHIN = 10.0
"""Seconds after the start of a life in which those that saw the end of the last one are met."""
BACK_FOR = 60.0
"""Seconds for which it is remembered that a client is back, longer than a death takes to be noticed."""

Key = tuple[str, str]
"""Of an adopted row: the node and life that had it, and the client."""


class WillsTable(Protocol):
    """The owned table ``wills``; a value is ``[record, delay]`` with the delay in seconds."""

    def write(self, key: Any, value: Any, /) -> int: ...
    def delete(self, key: Any, /) -> int: ...
    def rows_of(self, owner: str, /) -> Mapping[Any, Any]: ...


@dataclass(slots=True)
class _Orphan:
    """A will whose node is down."""

    record: bytes
    delay: float
    down: float


@dataclass(frozen=True, slots=True)
class Former:
    """The will of a client of a former life; ``witnesses`` are those who saw its end, and their lives."""

    client_id: str
    record: bytes
    delay: float
    since: float
    witnesses: Mapping[str, int]

    @property
    def due(self) -> float:
        return self.since + max(GRACE_OF_FORMER, self.delay)


class Wills:
    """See the module. ``connected`` says whether a client is connected, to any node."""

    def __init__(self, *, node: str, grace: float, connected: Callable[[str], bool]) -> None:
        self.table: WillsTable | None = None
        self._node = node
        self._grace = grace
        self._connected = connected
        self._own: set[str] = set()
        self._known: dict[str, int] = {}
        self._together = 1
        self._settled_at = 0.0
        self._orphans: dict[Key, _Orphan] = {}
        self._adopted: set[Key] = set()
        self._awaited: Counter[str] = Counter()
        """Of each client, how many of its wills other nodes have adopted."""
        self._back: dict[str, float] = {}
        self._former: list[Former] = []
        self.keep_former: Callable[[Sequence[Former]], None] = _forget_former
        """Told of the wills of former lives whenever they have changed."""
        self._witnesses: dict[str, int] = {}
        self._decide_at = 0.0

    # -- wills of this node's clients

    def hold(self, client_id: str, record: bytes, delay: float) -> None:
        """A client is connected that left a will."""
        if self.table is not None:
            self._own.add(client_id)
            self.table.write(client_id, [record, delay])

    def release(self, client_id: str) -> None:
        """The will is published or void."""
        if client_id in self._own:
            self._own.discard(client_id)
            if self.table is not None:
                self.table.delete(client_id)

    # -- other nodes

    def node_up(self, name: str, creation: int) -> None:
        """A node can be reached. Back in the same life, it looks after its wills itself."""
        self._known[name] = creation
        self._together = max(self._together, len(self._known) + 1)
        self._forget(origin(name, creation))

    def node_down(self, name: str, creation: int, now: float, *, left: bool) -> list[str]:
        """A node is gone. Returns who is connected here, so that a delayed will is void: tell the others."""
        self._known.pop(name, None)
        if left:
            self._together = max(1, self._together - 1)
            return []
        self._settled_at = now + SETTLED_AFTER
        if self.table is None:
            return []
        here: list[str] = []
        # Now, because the rows of a node go when it comes back in a new life.
        for key, (record, delay) in self.table.rows_of(name).items():
            name_of = tuple(key) if isinstance(key, tuple | list) else (origin(name, creation), key)
            client_id = name_of[1]
            if delay and self._connected(client_id):
                here.append(client_id)
            elif not (delay and client_id in self._back):
                self._orphans.setdefault(name_of, _Orphan(record, delay, now))
        return here

    def adopted(self, owner: str, written: Iterable[Any], deleted: Iterable[Any]) -> None:
        """Rows of another node changed: what it has adopted needs no other."""
        for key in written:
            if isinstance(key, tuple | list):
                self._awaited[key[1]] += 1
                if owner in self._known:
                    self._orphans.pop(tuple(key), None)
        for key in deleted:
            if isinstance(key, tuple | list):
                self._awaited[key[1]] -= 1
                if self._awaited[key[1]] <= 0:
                    del self._awaited[key[1]]

    # -- clients that come back

    def returned(self, client_id: str) -> bool:
        """A client has connected here; whether other nodes must be told, since one may wait with its will."""
        waits = any(key[1] == client_id for key in self._orphans) if self._orphans else False
        return waits or client_id in self._awaited

    def back(self, client_id: str, now: float) -> None:
        """A client is connected somewhere: its delayed wills are void."""
        self._back[client_id] = now
        self._keep([one for one in self._former if one.client_id != client_id or not one.delay])
        for key in [k for k, orphan in self._orphans.items() if k[1] == client_id and orphan.delay]:
            self._drop(key)

    # -- a former life of this node

    def restore(self, client_id: str, record: bytes, delay: float, now: float) -> None:
        """A client of the former life left a will, due after ``delay``."""
        self._former.append(Former(client_id, record, delay, now, self._witnesses))

    def begin(self, witnesses: Mapping[str, int], now: float) -> None:
        """A new life begins; who was up at the end of the one before."""
        self._witnesses = dict(witnesses)
        self._decide_at = now + WITNESSES_WITHIN

    def undecided(self, former: Iterable[Former]) -> None:
        """What a life before that one had left, and nobody could decide."""
        self._former += former

    def note_former(self) -> None:
        """Have all of them kept."""
        self.keep_former(self._former)

    def _keep(self, former: list[Former]) -> None:
        if len(former) != len(self._former):
            self._former = former
            self.keep_former(former)

    def _due_of_former(self, now: float) -> list[bytes]:
        if not self._former or now < self._decide_at:
            return []
        due, left = [], []
        for one in self._former:
            if any(self._known.get(name) == creation for name, creation in one.witnesses.items()):
                continue
            if now < one.due:
                left.append(one)
            elif not (one.delay and self._connected(one.client_id)):
                due.append(one.record)
        self._keep(left)
        return due

    # -- time

    def due(self, now: float) -> list[bytes]:
        """The records to publish now. Call it about once a second."""
        for client_id in [c for c, since in self._back.items() if since + BACK_FOR < now]:
            del self._back[client_id]
        own = self._due_of_former(now)
        alive = len(self._known) + 1
        if 2 * alive < self._together:
            return own
        if now >= self._settled_at:
            # It has been so for a while: this is the cluster now.
            self._together = alive
        if self.table is None or any(name < self._node for name in self._known):
            return own
        records = own
        for key, orphan in list(self._orphans.items()):
            if key not in self._adopted:
                self._adopted.add(key)
                self.table.write(key, [orphan.record, orphan.delay])
            elif now >= orphan.down + max(self._grace, orphan.delay):
                self._drop(key)
                if not (orphan.delay and self._connected(key[1])):
                    records.append(orphan.record)
        return records

    def _drop(self, key: Key) -> None:
        self._orphans.pop(key, None)
        if key in self._adopted and self.table is not None:
            self._adopted.discard(key)
            self.table.delete(key)

    def _forget(self, name: str) -> None:
        for key in [key for key in self._orphans if key[0] == name]:
            self._drop(key)


def _forget_former(_former: Sequence[Former]) -> None:
    pass


def origin(name: str, creation: int) -> str:
    """One life of a node."""
    return f"{name}/{creation}"
