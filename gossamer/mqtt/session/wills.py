"""Wills of a cluster: published once, by the node of the client or, where that is dead, by another one.

Every will of a connected client is a row of its node in the *owned* table ``wills``, on disc where there is
one, under a *stamp* of its own: node, life, number. When a connection ends without a goodbye, and when a node
goes down, the will is *held*: it stands in the rows of the node that is to publish it, under ``(stamp,
client)``. A held will is published once all nodes that are up have *granted* it; then its row says that it is
done, so that whoever comes later, in whatever life, knows.

Rules: 1. A node that does not answer is not a dead one. Its wills are adopted at once and published when its
death is proven (its host refuses connections, or it is up in a new life), or when it has not answered for
:data:`UNREACHABLE_TIMEOUT`. A node that is back by then in the same life keeps its wills.  2. A side that
holds less than half of the nodes it last saw together publishes nothing that others may have: not the wills
of others, and of its own only those that began after the loss.  3. Of several that hold a will the node that
it began on comes first, then the first by name. What that node's disc does not have was void or published.
4. Of survivors that saw different rows of the dead, those are right who saw most; and they are righter than
the node's next life, whose disc may have been full.  5. A delayed will is dropped where its client is
connected again, anywhere ([MQTT-3.1.3-9]): the node it comes to tells the others, when it comes or when it
learns of the death; to the node of the will, should it be alive, it is as if it were published. One without
delay is not: its connection did end ([MQTT-3.1.2-8]).  6. A node that stops in order publishes its own
without asking.  7. A node that has itself left its cluster adopts nothing: those that it sees leave are up,
and publish their own, and what it held for others.  8. A will that counts down goes with its session. Until
the node that the session left is known to have let go of it, both may have the will: the copy carries the
stamps that it had before, its holder asks for these too, and however it ends at either node, it has ended at
both. That node comes first.

Rejected: taking silence for death. A node that is cut off or paused serves its clients, and publishes their
wills as well. Leases, by which it would send them away: it would lose them at every pause.

Pure: events in, with the time; what is to be asked comes out of :meth:`Wills.due`, what is to be published of
:meth:`Wills.settle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Key", "Wills", "WillsTable"]

UNREACHABLE_TIMEOUT = 60.0
"""Seconds without an answer, after which a node is taken for dead without proof."""
REFUSALS = 3
"""Connections in a row that a host must refuse, so that no restart of a listener is taken for a death."""
FORMER_GRACE = 5.0
"""Seconds that the will of a former life waits at least."""
MEET_TIMEOUT = 10.0
"""Seconds after the start of a life in which others are met that may have published wills of the last one."""
BACK_FOR = 60.0
"""Seconds for which it is remembered that a client is back, longer than a death takes to be noticed."""
GRANT_FOR = 10.0
DONE_FOR = 86_400.0
"""Seconds for which it is known that a will is published, unless its node has been told."""
RETURNED_FOR = 300.0
"""The same where its node is up in a later life, and has asked."""
BATCH = 500

Key = tuple[str, str]
"""Of a held will: its stamp, and the client."""
DONE = 0


class WillsTable(Protocol):
    """The owned table ``wills``; a value is ``[record, delay, stamp, time of day when due or None]``, and the
    stamps that it had before if it moved; or :data:`DONE`."""

    def write(self, key: Any, value: Any, /) -> int: ...
    def delete(self, key: Any, /) -> int: ...
    def rows_of(self, owner: str, /) -> Mapping[Any, Any]: ...
    def seen_of(self, owner: str, /) -> int: ...


@dataclass(slots=True)
class _Held:
    """A will whose connection has ended. Times are intervals."""

    row: list[Any]
    since: float
    ready: float

    @property
    def delayed(self) -> bool:
        return bool(self.row[1])


@dataclass(slots=True)
class _Missing:
    """A node that was here and does not answer."""

    creation: int
    since: float
    refusals: int = 0
    settled: bool = False

    @property
    def dead(self) -> bool:
        return self.refusals >= REFUSALS


@dataclass(frozen=True, slots=True)
class _End:
    """What was seen of a life when it was down: how many of its changes, the number of its last will, and
    which wills."""

    position: int
    number: int
    keys: frozenset[Key]
    since: float

    def saw_end(self, key: Key, position: int | None, *, again: bool) -> bool:
        """Whether a will was void or published, as one does not know that saw so many changes; ``again``: it
        is the node itself in a later life, whose disc may have been behind."""
        if key in self.keys:
            return False
        if position is not None:
            return self.position > position
        return again and number_of(key) <= self.number


class Wills:
    """State machine that says of each will of the cluster whether this node is to publish it, and when.

    ``connected`` says whether a client is connected here; ``wall`` is the time of day.
    """

    def __init__(
        self,
        *,
        node: str,
        creation: int,
        grace: float,
        connected: Callable[[str], bool],
        wall: Callable[[], float],
    ) -> None:
        self.table: WillsTable | None = None
        self.closing = False
        """The node stops in order: nobody is asked any more."""
        self.withdrawn: Callable[[], bool] = lambda: False
        """Whether this node has left its cluster: it is not the others that leave."""
        self.wake: Callable[[], object] = lambda: None
        """Called when something is due at once."""
        self._node = node
        self._creation = creation
        self._life = origin(node, creation)
        self._grace = grace
        self._connected = connected
        self._wall = wall
        self.born = creation
        """The life that the disc began in."""
        self._number = 0
        self._exposed = 0
        """Wills up to this number were known to nodes that this one does not see."""
        self._own: dict[str, str] = {}
        self._offered: set[Key] = set()
        """Of these, those whose session was on its way to another node, which may have it."""
        self._copies: dict[Key, Key] = {}
        """By what they were at other nodes, those that came from there; also some that are over."""
        self._held: dict[Key, _Held] = {}
        self._orphans: dict[Key, _Held] = {}
        """Of nodes that are down, and not held by anybody yet."""
        self._done: dict[Key, float] = {}
        """This node's rows that say so."""
        self._known: dict[str, int] = {}
        self._missing: dict[str, _Missing] = {}
        self._ends: dict[str, _End] = {}
        self._numbers: dict[str, int] = {}
        """By life of a node that is up, the number of its last will."""
        self._granted: dict[Key, tuple[str, float]] = {}
        self._elsewhere: dict[str, set[tuple[str, Key]]] = {}
        """Of each client, its wills that other nodes hold."""
        self._back: dict[str, float] = {}
        self._decide_at = 0.0
        self._swept = 0.0

    # -- wills of this node's clients

    def hold(self, client_id: str, record: bytes, delay: float, now: float) -> int:
        """A client is connected that left a will; the number of the write, 0 where there is no table."""
        self._settle_own(client_id, now)
        return self._write(client_id, record, delay, [])

    def _write(self, client_id: str, record: bytes, delay: float, former: list[str]) -> int:
        if self.table is None:
            return 0
        self._number += 1
        stamp = self._own[client_id] = f"{self._life}/{self._number}"
        row = [record, delay, stamp, None]
        for one in former:
            self._copies[one, client_id] = (stamp, client_id)
        return self.table.write(client_id, [*row, former] if former else row)

    def count_down(self, client_id: str, seconds: float) -> None:
        """Its connection has ended, and its delay begins."""
        row = self._row(client_id)
        if row is not None and self.table is not None:
            self.table.write(client_id, [*row[:3], self._wall() + seconds, *row[4:]])

    def release(self, client_id: str, now: float) -> None:
        """The will is void."""
        self._settle_own(client_id, now)
        self.let_go(client_id)

    def _settle_own(self, client_id: str, now: float) -> None:
        """The will has ended here, and so it has at other nodes that may have it."""
        row = self._row(client_id)
        if row is not None:
            key = (row[2], client_id)
            for one in [*_former(row, client_id), *({key} & self._offered)]:
                self._finish(one, now)

    def end(self, client_id: str, now: float) -> bool:
        """The will is due. False: nobody has to be asked, publish it; True: it is published later."""
        row = self._row(client_id)
        if row is None or self.table is None:
            return False
        if self.closing or not (self._known or self._missing):
            self.release(client_id, now)
            return False
        key = (row[2], client_id)
        offered = key in self._offered
        self.let_go(client_id)
        if offered:
            self._offered.add(key)
        self._hold(key, [row[0], 0.0, row[2], None, *row[4:]], now, now)
        self.wake()
        return True

    def _hold(self, key: Key, row: list[Any], since: float, ready: float) -> None:
        assert self.table is not None  # noqa: S101 - the row is of it
        self.table.write(key, row)
        self._held[key] = _Held(row, since, ready)
        for one in _former(row, key[1]):
            self._copies[one] = key

    # -- those whose sessions move

    def offer(self, client_id: str) -> list[str]:
        """Another node may have the will from now on; all stamps that it has had, the last is this node's."""
        row = self._row(client_id)
        if row is None:
            return []
        self._offered.add((row[2], client_id))
        return [*(stamp for stamp, _ in _former(row, client_id)), row[2]]

    def resume(self, client_id: str, record: bytes, seconds: float, stamps: list[str], now: float) -> bool:
        """A session is here, or is here again, whose will counts down, and was :meth:`offered` under these
        stamps. False: the will is over."""
        if self.table is None:
            return True
        if stamps and life_of((stamps[-1], client_id)) == self._life:
            # It was on its way elsewhere.
            there = self._own.get(client_id) == stamps[-1]
        else:
            there = not any(self._is_done((stamp, client_id)) for stamp in stamps)
            if there:
                former = [stamp for stamp in stamps if life_of((stamp, client_id)) != self._life]
                for stamp in former:
                    self._drop((stamp, client_id))
                self._settle_own(client_id, now)
                self._write(client_id, record, seconds, former)
        if there:
            self.count_down(client_id, seconds)
        return there

    def let_go(self, client_id: str) -> None:
        """The session is at another node, and so is the will."""
        stamp = self._own.pop(client_id, None)
        if stamp is not None and self.table is not None:
            self._offered.discard((stamp, client_id))
            self.table.delete(client_id)

    def moved(self, client_id: str, source: str) -> None:
        """The node that a session came from has let go of it: what became of its will is known here."""
        row = self._row(client_id)
        if row is None or self.table is None:
            return
        rows = self.table.rows_of(source)
        former = [key[0] for key in _former(row, client_id) if _node_of(key) != source or key in rows]
        self.table.write(client_id, [*row[:4], former] if former else row[:4])

    def _copy_of(self, key: Key) -> bool:
        """Whether this node has a will that came from another node, under another stamp."""
        copy = self._copies.get(key)
        return copy is not None and (copy in self._held or self._own.get(copy[1]) == copy[0])

    @property
    def asking(self) -> bool:
        """Whether wills of this node's clients wait for the word of other nodes."""
        return any(life_of(key) == self._life for key in self._held)

    def spent(self, keys: Iterable[Key], now: float) -> list[str]:
        """Others have published these while they could not see this node; whose clients are here."""
        here = []
        for key in map(_key, keys):
            stamp, client_id = key
            if self._own.get(client_id) == stamp:
                # Nobody has to be told of it once more.
                self._offered.discard(key)
                self.release(client_id, now)
                here.append(client_id)
            self._drop(key)
        return here

    def _row(self, client_id: str) -> list[Any] | None:
        if client_id not in self._own or self.table is None:
            return None
        row: list[Any] = self.table.rows_of(self._node)[client_id]
        return row

    # -- other nodes

    def node_up(self, name: str, creation: int) -> list[Key]:
        """A node can be reached. Back in the same life, it looks after its wills itself; returns those that
        it must be told are published."""
        self._known[name] = creation
        self._missing.pop(name, None)
        life = origin(name, creation)
        for key in [key for key in (*self._orphans, *self._held) if life_of(key) == life]:
            self._drop(key)
        return [key for key in self._done if life_of(key) == life]

    def told(self, keys: Iterable[Key]) -> None:
        """A node knows which of its wills are published."""
        for key in keys:
            if self._done.pop(key, None) is not None and self.table is not None:
                self.table.delete(key)

    def node_down(self, name: str, creation: int, now: float, *, left: bool) -> list[str]:
        """A node is gone. Returns who is connected here, so that a delayed will is void: tell the others."""
        self._known.pop(name, None)
        if left:
            self._missing.pop(name, None)
        else:
            self._missing[name] = _Missing(creation, now)
        self._exposed = self._number
        if self.table is None:
            return []
        here: list[str] = []
        keys = set()
        adopts = not (left and self.withdrawn())
        if not adopts:
            self._orphans.clear()
            if not self._known:
                # Those that stay have seen what it holds, and see no more of this node.
                for key in [key for key in self._held if _node_of(key) != self._node]:
                    self._drop(key)
        # Now, because the rows of a node go when it comes back in a new life.
        for at, row in self.table.rows_of(name).items():
            key = (row[2], at) if isinstance(at, str) else _key(at)
            if row == DONE:
                self._finish(key, now)
                continue
            if not key[0]:
                continue
            if life_of(key) == self._life:
                # Taken over while this node was not seen, and its own again.
                continue
            keys.add(key)
            client_id = key[1]
            if left and isinstance(at, str) and row[3] is None:
                # It has published it, or its client is still there.
                continue
            if row[1] and self._connected(client_id):
                here.append(client_id)
                if row[3] is not None:
                    self._finish(key, now)
            elif (
                adopts
                and key not in self._held
                and not (row[1] and client_id in self._back)
                and not any(map(self._is_mine, (key, *_former(row, client_id))))
            ):
                self._orphans[key] = _Held(row, now, now + max(self._grace, self._left(row)))
        life = origin(name, creation)
        self._ends[life] = _End(self.table.seen_of(name), self._numbers.pop(life, 0), frozenset(keys), now)
        return here

    def changed(self, owner: str, written: Mapping[Any, Any], deleted: Iterable[Any]) -> None:
        """Rows of another node changed: what it holds needs no other."""
        for at, row in written.items():
            if isinstance(at, str):
                key = (row[2], at)
                self._numbers[life_of(key)] = max(self._numbers.get(life_of(key), 0), number_of(key))
                continue
            key = _key(at)
            if row == DONE:
                self._gone(owner, key)
                self._drop(key)
            elif key[0]:
                self._elsewhere.setdefault(key[1], set()).add((owner, key))
                if owner in self._known and _first(owner, self._node, key):
                    self._drop(key)
        for at in deleted:
            if not isinstance(at, str):
                self._gone(owner, _key(at))

    def _gone(self, owner: str, key: Key) -> None:
        found = self._elsewhere.get(key[1])
        if found is not None:
            found.discard((owner, key))
            if not found:
                del self._elsewhere[key[1]]

    # -- clients that come back

    def returned(self, client_id: str) -> bool:
        """A client has connected here; whether other nodes must be told, since one may wait with its will."""
        waits = any(key[1] == client_id for found in (self._orphans, self._held) for key in found)
        return waits or client_id in self._elsewhere

    def back(self, client_id: str, now: float) -> None:
        """A client is connected somewhere: its delayed wills are void."""
        self._back[client_id] = now
        for found in (self._orphans, self._held):
            for key in [key for key, one in found.items() if key[1] == client_id and one.delayed]:
                if _node_of(key) == self._node:
                    self._drop(key)
                else:
                    # Its node, which slept or was cut off, does not know, and may ask long after.
                    self._finish(key, now)

    # -- a former life of this node

    def begin(self, born: int, seen: Mapping[str, int], now: float) -> None:
        """A life begins with what the disc had: the life that began with that disc, and who was seen last."""
        self.born = born
        self._decide_at = now + MEET_TIMEOUT
        for name, creation in seen.items():
            self._missing.setdefault(name, _Missing(creation, now))
        if self.table is None:
            return
        for at, row in list(self.table.rows_of(self._node).items()):
            if row == DONE:
                self._done[_key(at)] = now
                continue
            key = (row[2], at) if isinstance(at, str) else _key(at)
            if not key[0]:
                continue
            if isinstance(at, str):
                self.table.delete(at)
            self._hold(key, row, now, now + max(FORMER_GRACE, self._left(row)))

    def _left(self, row: list[Any]) -> float:
        """Seconds of its delay that are left."""
        return float(row[1]) if row[3] is None else float(row[3] - self._wall())

    # -- who is dead

    def seen(self) -> dict[str, int]:
        """Nodes that are up, or may be."""
        missing = {name: self._missing[name].creation for name in self.doubted()}
        return missing | self._known

    def doubted(self) -> list[str]:
        """Nodes of which it is not known whether they are dead."""
        return [name for name, one in self._missing.items() if not (one.dead or one.settled)]

    def refused(self, name: str, *, refused: bool) -> None:
        """Whether the host of such a node has refused a connection."""
        one = self._missing.get(name)
        if one is not None:
            one.refusals = one.refusals + 1 if refused else 0

    def _majority(self) -> bool:
        alive = len(self._known) + 1
        absent = sum(not (one.dead or one.settled) for one in self._missing.values())
        return alive >= absent

    def _may_publish(self, key: Key, now: float) -> bool:
        life = life_of(key)
        name, _, creation = life.rpartition("/")
        if life == self._life:
            own = number_of(key) > self._exposed and not _former(self._held[key].row, key[1])
            return own or self._majority()
        if name == self._node:
            return now >= self._decide_at + (0 if self._majority() else UNREACHABLE_TIMEOUT)
        missing = self._missing.get(name)
        if not self._majority():
            return False
        if missing is None or missing.creation != int(creation) or missing.dead:
            # It is up in another life, or has left.
            return True
        return now >= missing.since + UNREACHABLE_TIMEOUT

    # -- time

    def due(self, now: float) -> tuple[list[Key], dict[str, int]]:
        """What to ask all nodes that are up for, and how much was seen of the lives it comes from. Call it
        about once a second; what follows is :meth:`settle`. See also :meth:`former`."""
        self._forget(now)
        if self.table is None:
            return [], {}
        if self._majority():
            for one in self._missing.values():
                # It has been so for a while: this is the cluster now.
                one.settled = one.settled or now >= one.since + UNREACHABLE_TIMEOUT
            # The first by name; the others take what it does not.
            rank = sum(name < self._node for name in self._known)
            for key, orphan in list(self._orphans.items()):
                if now >= orphan.since + 2 * self._grace * rank:
                    del self._orphans[key]
                    self._hold(key, orphan.row, orphan.since, orphan.ready)
        keys = [key for key, one in self._held.items() if one.ready <= now and self._may_publish(key, now)]
        del keys[BATCH:]
        ends = {life: self._ends[life].position for key in keys if (life := life_of(key)) in self._ends}
        return keys, ends

    def former(self, keys: Iterable[Key]) -> dict[str, list[str]]:
        """Of those that moved, the stamps that they had before."""
        rows = {key: self._held[key].row for key in keys}
        return {key[0]: row[4] for key, row in rows.items() if len(row) > 4}

    def asked(
        self,
        claimant: str,
        keys: Iterable[Any],
        ends: Mapping[str, int],
        former: Mapping[str, list[str]],
        now: float,
    ) -> tuple[list[Key], list[Key]]:
        """``claimant`` wants to publish these: which are published or void, and which have to wait."""
        void, wait = [], []
        for key in map(_key, keys):
            before = [(stamp, key[1]) for stamp in former.get(key[0], ())]
            life = life_of(key)
            name, _, creation = life.rpartition("/")
            end, granted = self._ends.get(life), self._granted.get(key)
            if (
                any(map(self._is_done, (key, *before)))
                or self._is_back(claimant, key, now)
                or (name == self._node != claimant and self._settled_here(key, int(creation)))
            ):
                void.append(key)
            elif (
                life == self._life
                or (self._known.get(name) == int(creation) and name != claimant)
                or (key in self._held and _first(self._node, claimant, key))
                or (granted is not None and granted[0] in self._known and _first(granted[0], claimant, key))
                or (self._copy_of(key) and name != claimant)
                or any(_node_of(one) == self._node and self._is_mine(one) for one in before)
            ):
                wait.append(key)
            elif end is not None and end.saw_end(key, ends.get(life), again=self._is_again(claimant, life)):
                void.append(key)
            else:
                self._granted |= dict.fromkeys((key, *before), (claimant, now))
        return void, wait

    def settle(
        self, keys: Iterable[Key], answers: Iterable[tuple[list[Any], list[Any]] | None], now: float
    ) -> list[tuple[str, bytes]]:
        """What all have said to :meth:`due`, None where one has not answered: what to publish now."""
        void: set[Key] = set()
        wait: set[Key] = set()
        for answer in answers:
            if answer is None:
                return []
            void |= set(map(_key, answer[0]))
            wait |= set(map(_key, answer[1]))
        records = []
        for key in keys:
            one = self._held.get(key)
            if one is None or (key in wait and key not in void):
                continue
            before = _former(one.row, key[1])
            if any(given[0] in self._known for k in (key, *before) if (given := self._granted.get(k))):
                # One that comes first has asked meanwhile.
                continue
            if key in void or (one.delayed and self._connected(key[1])):
                self._drop(key)
            elif self._may_publish(key, now):
                records.append((key[1], one.row[0]))
                for each in (key, *before):
                    self._finish(each, now)
        return records

    # -- inside

    def _is_back(self, claimant: str, key: Key, now: float) -> bool:
        """Whether the client of a delayed will is here, or was anywhere after its connection had ended, and
        ``claimant`` could not know, which began later."""
        row = None if self.table is None else self.table.rows_of(claimant).get(key)
        if not row or not row[1]:
            return False
        if self._connected(key[1]):
            return True
        back = self._back.get(key[1])
        return back is not None and row[3] is not None and self._wall() - (now - back) > row[3] - row[1]

    def _is_again(self, claimant: str, life: str) -> bool:
        name, _, creation = life.rpartition("/")
        return name == claimant and self._known.get(name, 0) > int(creation)

    def _settled_here(self, key: Key, creation: int) -> bool:
        """Whether this node's disc covers a life of its own, and has that will no more."""
        return self.born <= creation < self._creation and key not in self._held

    def _is_mine(self, key: Key) -> bool:
        """Whether a will is this node's, perhaps under another stamp, or is done."""
        own = self._own.get(key[1]) == key[0] or key in self._held
        return own or self._copy_of(key) or self._is_done(key)

    def _is_done(self, key: Key) -> bool:
        if key in self._done:
            return True
        table = self.table
        return table is not None and any(table.rows_of(name).get(key) == DONE for name in self._known)

    def _finish(self, key: Key, now: float) -> None:
        """It is published: let everybody know, also in a later life. One that began in this life needs that
        only where others may hold it."""
        self._held.pop(key, None)
        self._orphans.pop(key, None)
        if self.table is None:
            return
        offered = key in self._offered
        self._offered.discard(key)
        if life_of(key) == self._life and not (self._missing or offered):
            self.table.delete(key)
        else:
            self._done[key] = now
            self.table.write(key, DONE)

    def _drop(self, key: Key) -> None:
        self._orphans.pop(key, None)
        if self._held.pop(key, None) is not None and self.table is not None:
            self._offered.discard(key)
            self.table.delete(key)

    def _forget(self, now: float) -> None:
        self._back = {c: since for c, since in self._back.items() if since + BACK_FOR >= now}
        self._granted = {k: g for k, g in self._granted.items() if g[1] + GRANT_FOR >= now}
        self._ends = {life: end for life, end in self._ends.items() if end.since + DONE_FOR >= now}
        if now < self._swept + 60:
            return
        self._swept = now
        self._copies = {key: copy for key, copy in self._copies.items() if self._copy_of(key)}
        spent = []
        for key, since in self._done.items():
            name, _, creation = life_of(key).rpartition("/")
            later = self._known.get(name, 0) > int(creation)
            if since + (RETURNED_FOR if later else DONE_FOR) < now:
                spent.append(key)
        self.told(spent)


def _first(one: str, other: str, key: Key) -> bool:
    """Whether ``one`` comes before ``other`` where both hold a will."""
    name = _node_of(key)
    return (one != name, one) < (other != name, other)


def _key(value: Any) -> Key:
    stamp, client_id = value
    return stamp, client_id


def _former(row: list[Any], client_id: str) -> list[Key]:
    """What a will was at other nodes, before its session moved."""
    return [(stamp, client_id) for stamp in row[4]] if len(row) > 4 else []


def _node_of(key: Key) -> str:
    return life_of(key).rpartition("/")[0]


def origin(name: str, creation: int) -> str:
    """One life of a node."""
    return f"{name}/{creation}"


def life_of(key: Key) -> str:
    """The life that a will began in."""
    return key[0].rpartition("/")[0]


def number_of(key: Key) -> int:
    """Which will of its life it is, counted from 1."""
    return int(key[0].rpartition("/")[2])
