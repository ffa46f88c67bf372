"""Wills of a cluster: when a node dies, another one publishes what its clients left to be said.

Every will of a connected client is a row of its node in the *owned* table ``wills``, so that all nodes hold
it. When a node goes down without a goodbye, the first survivor by name *adopts* its rows: it writes them as
rows of its own, waits out the grace and each will's delay, publishes, and deletes them. The others remember
what they saw, until they see it adopted; should the adopter go down before, the next one adopts.

Rules: 1. A side that holds less than half of the nodes it last saw together publishes nothing: it is more
likely to be the one that was cut off.  2. A node that is back within the grace, in the same life, keeps its
wills: nothing of it died.  3. A delayed will is dropped where its client is connected again, anywhere
([MQTT-3.1.3-9]); one without delay is not: its connection did end ([MQTT-3.1.2-8]).  4. A node that leaves
in order publishes its own.

Pure: events in, with the time; what is to be published comes out of :meth:`Wills.due`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Wills", "WillsTable"]

SETTLED_AFTER = 60.0
"""Seconds without a loss, after which the nodes that are left are all there are."""

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

    def node_down(self, name: str, creation: int, now: float, *, left: bool) -> None:
        """A node is gone."""
        self._known.pop(name, None)
        if left:
            self._together = max(1, self._together - 1)
            return
        self._settled_at = now + SETTLED_AFTER
        if self.table is None:
            return
        # Now, because the rows of a node go when it comes back in a new life.
        for key, (record, delay) in self.table.rows_of(name).items():
            name_of = tuple(key) if isinstance(key, tuple | list) else (origin(name, creation), key)
            self._orphans.setdefault(name_of, _Orphan(record, delay, now))

    def adopted(self, owner: str, keys: Iterable[Any]) -> None:
        """Rows of another node were written: what it has adopted needs no other."""
        for key in keys:
            if isinstance(key, tuple | list) and owner in self._known:
                self._orphans.pop(tuple(key), None)

    # -- time

    def due(self, now: float) -> list[bytes]:
        """The records to publish now. Call it about once a second."""
        alive = len(self._known) + 1
        if 2 * alive < self._together:
            return []
        if now >= self._settled_at:
            # It has been so for a while: this is the cluster now.
            self._together = alive
        if self.table is None or any(name < self._node for name in self._known):
            return []
        records = []
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


def origin(name: str, creation: int) -> str:
    """One life of a node."""
    return f"{name}/{creation}"
