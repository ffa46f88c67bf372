"""Wills of a cluster: published once, by the node of the client or, where that is dead, by another one.

Every will of a connected client is a row of its node in the *owned* table ``wills``, on disc where there is
one, with a *stamp* of its own: node, creation, number. When a connection ends without DISCONNECT, and when a
node goes down, the will is *held*: a row of the node that is to publish it, under ``(stamp, client)``. A held
will is published once all nodes that are up have *granted* it; then its row becomes ``DONE``, for nodes that
come up later and for later creations.

Rules: 1. A node that does not answer is not a dead one. Its wills are adopted at once and published when its
death is proven (its host refuses connections, or it is up in a new creation), or when it has not answered for
``UNREACHABLE_TIMEOUT``. A node that is back before that in the same creation keeps its wills.  2. A side with
less than half of the nodes that it last saw together publishes nothing that others may have: not the wills of
others, and of its own only those that began after the loss.  3. Of several holders of a will the node that it
began on comes first, then the first by name. What that node's disc does not have was void or published.  4.
Of survivors that saw different rows of a dead node, those that saw the most changes are right, also against
the node's next creation, whose disc may have been full.  5. A delayed will is dropped where its client is
connected again, anywhere ([MQTT-3.1.3-9]): the node it connects to reports that to the others, then or when
it sees the death; for the node of the will, should it be alive, the will counts as published. One without
delay is not dropped: its connection did end ([MQTT-3.1.2-8]).  6. A node that shuts down publishes its own
wills without asking.  7. A node that has itself left its cluster adopts nothing: those that it sees leave are
up, and publish their own wills, and those it held for others.  8. A will that counts down moves with its
session. Until the node that the session left is known to have let go of it, both may have the will: the copy
carries its former stamps, its holder requests these too, and however it ends at either node, it has ended at
both. The former node comes first.  9. A will is over once its message is as safe as one that a client had
acknowledged: at each receiving node, on disc where there is one, or kept for a node that is away. If its
publisher dies before, it is published again, under the same id (``will_message_id``).

Rejected: taking silence for death. A node that is cut off or paused serves its clients, and publishes their
wills as well. Leases, by which it would disconnect them: it would lose them at every pause.

Pure: events in, with the time; :meth:`Wills.due` returns the wills to request, :meth:`Wills.settle` those to
publish (``will_agreement``). ``will_rows`` has the wills that this node knows, ``will_nodes`` their nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gossamer.mqtt.messages.message_ids import NO_ID
from gossamer.mqtt.session.will_agreement import WillAgreement
from gossamer.mqtt.session.will_nodes import End, origin_name
from gossamer.mqtt.session.will_rows import (
    DONE,
    Held,
    Key,
    comes_first,
    former_of,
    key_of,
    node_of,
    number_of,
    origin_of,
    will_message_id,
)

FORMER_GRACE = 5.0
"""Seconds that a will of an earlier creation of this node waits at least."""
MEET_TIMEOUT = 10.0
"""Seconds after the start to meet nodes that may have published wills of this node's last creation."""


@dataclass(kw_only=True, eq=False)
class Wills(WillAgreement):
    """State machine that decides which wills of the cluster this node publishes, and when."""

    closing: bool = False
    """The node shuts down: no other node is asked any more."""
    withdrawn: Callable[[], bool] = lambda: False
    """Returns whether this node has left its cluster, rather than the others."""
    wake: Callable[[], object] = lambda: None
    """Called when a will is due at once."""
    next_number: Callable[[], int] = field(default_factory=lambda: itertools.count(1).__next__)
    """Returns the number of the next stamp, above all before."""
    _number: int = 0
    _elsewhere: dict[str, set[tuple[str, Key]]] = field(default_factory=dict)
    """By client, its wills that other nodes hold, each with its holder."""

    # -- wills of this node's clients

    def hold(self, client_id: str, record: bytes, delay: float, now: float) -> int:
        """Keep the will of a client that is connected; return the number of the write, 0 without a table."""
        self._settle_own(client_id, now)
        return self._write(client_id, record, delay, [])

    def _write(self, client_id: str, record: bytes, delay: float, former: list[str]) -> int:
        if self.table is None:
            return 0
        self._number = self.next_number()
        stamp = self.own[client_id] = f"{self.origin}/{self._number}"
        row = [record, delay, stamp, None]
        for one in former:
            self.copies[one, client_id] = (stamp, client_id)
        return self.table.write(client_id, [*row, former] if former else row)

    def message_id(self, client_id: str) -> int:
        """Return the message id of a client's will; :data:`NO_ID`: it has none here."""
        row = self.row(client_id)
        return NO_ID if row is None else will_message_id(row, client_id)

    def count_down(self, client_id: str, seconds: float) -> None:
        """Begin the delay of a will whose connection has ended."""
        row = self.row(client_id)
        if row is not None and self.table is not None:
            self.table.write(client_id, [*row[:3], self.wall() + seconds, *row[4:]])

    def release(self, client_id: str, now: float) -> None:
        """Void the will of a client."""
        self._settle_own(client_id, now)
        self.let_go(client_id)

    def _settle_own(self, client_id: str, now: float) -> None:
        """Finish a will at other nodes that may have it, since it has ended here."""
        row = self.row(client_id)
        if row is not None:
            key = (row[2], client_id)
            for one in [*former_of(row, client_id), *({key} & self.offered)]:
                self.finish(one, now)

    def end(self, client_id: str, now: float) -> bool:
        """Hold a will that is due. False: publish it now, no node is asked; True: it is published later."""
        row = self.row(client_id)
        if row is None or self.table is None:
            return False
        if self.closing or not (self.nodes.known or self.nodes.missing):
            self.release(client_id, now)
            return False
        key = (row[2], client_id)
        offered = key in self.offered
        self.let_go(client_id)
        if offered:
            self.offered.add(key)
        self.hold_for(key, [row[0], 0.0, row[2], None, *row[4:]], now, now)
        self.wake()
        return True

    # -- wills of sessions that move

    def offer(self, client_id: str) -> list[str]:
        """Note that another node may have the will from now on; return its stamps, this node's last."""
        row = self.row(client_id)
        if row is None:
            return []
        self.offered.add((row[2], client_id))
        return [*(stamp for stamp, _ in former_of(row, client_id)), row[2]]

    def resume(self, client_id: str, record: bytes, seconds: float, stamps: list[str], now: float) -> bool:
        """Resume the countdown of a will whose session has come, or come back, and which was offered
        (:meth:`offer`) under these stamps. False: the will is over."""
        if self.table is None:
            return True
        if stamps and origin_of((stamps[-1], client_id)) == self.origin:
            # It was on its way to another node.
            there = self.own.get(client_id) == stamps[-1]
        else:
            there = not any(self.is_done((stamp, client_id)) for stamp in stamps)
            if there:
                former = [stamp for stamp in stamps if origin_of((stamp, client_id)) != self.origin]
                for stamp in former:
                    self.drop((stamp, client_id))
                self._settle_own(client_id, now)
                self._write(client_id, record, seconds, former)
        if there:
            self.count_down(client_id, seconds)
        return there

    def let_go(self, client_id: str) -> None:
        """Delete the row of a will that another node has with its session, or that is held or void."""
        stamp = self.own.pop(client_id, None)
        if stamp is not None and self.table is not None:
            self.offered.discard((stamp, client_id))
            self.table.delete(client_id)

    def moved(self, client_id: str, source: str) -> None:
        """Drop former stamps of a will at ``source``, which has let go of its session, but for held ones."""
        row = self.row(client_id)
        if row is None or self.table is None:
            return
        rows = self.table.rows_of(source)
        former = [key[0] for key in former_of(row, client_id) if node_of(key) != source or key in rows]
        self.table.write(client_id, [*row[:4], former] if former else row[:4])

    @property
    def unsettled(self) -> bool:
        """Return whether wills of this node's clients wait for answers of other nodes, or these have not
        learned yet that they are over, and would publish them when this node leaves."""
        if self.table is None:
            return False
        return any(origin_of(key) == self.origin for key in self.held) or not self.table.are_visible()

    def spent(self, keys: Iterable[Key], now: float) -> list[str]:
        """Void wills that others published while they could not see this node; return their clients here."""
        here = []
        for key in map(key_of, keys):
            stamp, client_id = key
            if self.own.get(client_id) == stamp:
                # No node has to learn it again.
                self.offered.discard(key)
                self.release(client_id, now)
                here.append(client_id)
            self.drop(key)
        return here

    # -- other nodes

    def node_up(self, name: str, creation: int) -> list[Key]:
        """Note that a node is up. Back in the same creation, it looks after its wills itself; return those of
        them that it must learn are over."""
        self.nodes.up(name, creation)
        origin = origin_name(name, creation)
        for key in [key for key in (*self.orphans, *self.held) if origin_of(key) == origin]:
            if key not in self.publishing:
                self.drop(key)
        return [key for key in (*self.done, *self.publishing) if origin_of(key) == origin]

    def node_down(self, name: str, creation: int, now: float, *, left: bool) -> list[str]:
        """Adopt the wills of a node that is down; return clients that are connected here, whose delayed wills
        are void: report them to the others."""
        self.nodes.down(name, creation, now, left=left)
        self.exposed = self._number
        if self.table is None:
            return []
        here: list[str] = []
        keys = set()
        adopts = not (left and self.withdrawn())
        if not adopts:
            self.orphans.clear()
            if not self.nodes.known:
                # Those that stay have seen what it holds, and see no more of this node.
                for key in [key for key in self.held if node_of(key) != self.node]:
                    self.drop(key)
        # Now, because the rows of a node go when it comes back in a new creation.
        for at, row in self.table.rows_of(name).items():
            key = (row[2], at) if isinstance(at, str) else key_of(at)
            if row == DONE:
                self.finish(key, now)
                continue
            if not key[0]:
                continue
            if origin_of(key) == self.origin:
                # Adopted while this node was not seen, and its own again.
                continue
            keys.add(key)
            client_id = key[1]
            if left and isinstance(at, str) and row[3] is None:
                # It has published it, or its client is still there.
                continue
            if row[1] and self.connected(client_id):
                here.append(client_id)
                if row[3] is not None:
                    self.finish(key, now)
            elif (
                adopts
                and key not in self.held
                and not (row[1] and client_id in self.returned_at)
                and not any(map(self.is_mine, (key, *former_of(row, client_id))))
            ):
                self.orphans[key] = Held(row, now, now + max(self.grace, self.left(row)))
        origin = origin_name(name, creation)
        self.nodes.ends[origin] = End(
            self.table.seen_of(name), self.nodes.numbers.pop(origin, 0), frozenset(keys), now
        )
        return here

    def changed(self, owner: str, written: Mapping[Any, Any], deleted: Iterable[object]) -> None:
        """Follow changed rows of another node: drop the wills that it holds and comes first for."""
        for at, row in written.items():
            if isinstance(at, str):
                key = (row[2], at)
                self.nodes.numbers[origin_of(key)] = max(
                    self.nodes.numbers.get(origin_of(key), 0), number_of(key)
                )
                continue
            key = key_of(at)
            if row == DONE:
                self._gone(owner, key)
                self.drop(key)
            elif key[0]:
                self._elsewhere.setdefault(key[1], set()).add((owner, key))
                if owner in self.nodes.known and comes_first(owner, self.node, key):
                    self.drop(key)
        for at in deleted:
            if not isinstance(at, str):
                self._gone(owner, key_of(at))

    def _gone(self, owner: str, key: Key) -> None:
        found = self._elsewhere.get(key[1])
        if found is not None:
            found.discard((owner, key))
            if not found:
                del self._elsewhere[key[1]]

    # -- clients that come back

    def returned(self, client_id: str) -> bool:
        """Return whether other nodes must learn that a client has connected here: one may hold its will."""
        waits = any(key[1] == client_id for found in (self.orphans, self.held) for key in found)
        return waits or client_id in self._elsewhere

    def back(self, client_id: str, now: float) -> None:
        """Void the delayed wills of a client that is connected to any node."""
        self.returned_at[client_id] = now
        for found in (self.orphans, self.held):
            for key in [key for key, one in found.items() if key[1] == client_id and one.delayed]:
                if node_of(key) == self.node:
                    self.drop(key)
                else:
                    # Its node, which was paused or cut off, has not seen that, and may ask long after.
                    self.finish(key, now)

    # -- time

    def begin(self, born: int, seen: Mapping[str, int], now: float) -> None:
        """Begin with the rows on disc: ``born`` is the creation in which it began, ``seen`` the creations of
        nodes that were up last. Wills in this node's rows are held."""
        self.born = born
        self.decide_at = now + MEET_TIMEOUT
        for name, creation in seen.items():
            if name not in self.nodes.missing:
                self.nodes.down(name, creation, now, left=False)
        if self.table is None:
            return
        for at, row in list(self.table.rows_of(self.node).items()):
            if row == DONE:
                self.done[key_of(at)] = now
                continue
            key = (row[2], at) if isinstance(at, str) else key_of(at)
            if not key[0]:
                continue
            if isinstance(at, str):
                self.table.delete(at)
            self.hold_for(key, row, now, now + max(FORMER_GRACE, self.left(row)))
