"""Detection of splits: two nodes that considered each other down, and did not die, reconnect.

A node makes a down record of a peer when membership declares it down. When a link is back, a node with a
record queries the peer's own; both compare. If each considered the other's same creation down, that is
``inconsistent_database``, raised once at each of the two per split. A node that crashed alone has no record
of its peers, so that a restart is no split. Records are kept on disc: if one of the two has restarted since,
the context is ``starting_partitioned_network``, otherwise ``running_partitioned_network``.

Rules: 1. No clock, no I/O: ``now`` and ``wall`` are passed in.  2. A record stays, and counts in the node's
view, until the heal that included it is done.  3. Queries are repeated until answered, since the peer's
process may start later than its link.  4. Another loss of the same peer is a new split.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from gossamer.autoheal.values import Context, DownQuery, DownRecord, Partition

ONE_SIDED_KEPT = 60.0
"""Seconds for which a mark that the peer does not return still counts in this node's view."""


class Marks:
    """Down records of one creation of a node about its peers."""

    def __init__(self, *, node: str, creation: int, marks: Iterable[DownRecord] = ()) -> None:
        self.node = node
        self.creation = creation
        self.marks: dict[str, DownRecord] = {mark.peer: mark for mark in marks}
        self.changed = False
        self._serial = max((mark.serial for mark in self.marks.values()), default=0)

    def down(self, peer: str, creation: int, reason: str, wall: float) -> None:
        """The session with ``peer`` ended; only membership's verdict ``down`` is a death."""
        if reason == "down":
            self._serial = max(self._serial + 1, int(wall * 1000))
            self._set(DownRecord(peer, creation, self.creation, self._serial, wall))
        elif reason == "left" and self.marks.pop(peer, None) is not None:
            self.changed = True

    def question(self, peer: str) -> DownQuery | None:
        """Return the query to ``peer``, whose session is up, if there is one."""
        mark = self.marks.get(peer)
        return None if mark is None or mark.met else DownQuery(self.node, self.creation, mark, ask=True)

    def heard(self, query: DownQuery, wall: float) -> tuple[DownQuery | None, Partition | None]:
        """Handle a peer's down query; return the answer, and the partition to raise."""
        peer, theirs = query.source, query.mark
        mine = self.marks.get(peer)
        answer = DownQuery(self.node, self.creation, mine, ask=False) if query.ask else None
        if mine is None or mine.met == "mutual":
            return answer, None
        if theirs is None or (theirs.mine, theirs.theirs) != (mine.theirs, mine.mine):
            self._set(replace(mine, met="one-sided", met_wall=wall))
            return answer, None
        self._set(replace(mine, met="mutual", met_wall=wall))
        running = mine.mine == self.creation and mine.theirs == query.creation
        context: Context = "running_partitioned_network" if running else "starting_partitioned_network"
        return answer, Partition(peer, context, mine.wall, wall)

    def tick(self, up: Iterable[str], wall: float, heals: bool = True) -> list[tuple[str, DownQuery]]:
        """Return repeated queries to peers that are ``up``; drop records that no heal will settle.

        ``heals`` False: there are no heals, and mutual records expire too.
        """
        for mark in list(self.marks.values()):
            waits = mark.met == "one-sided" or (mark.met == "mutual" and not heals)
            if waits and wall - mark.met_wall > ONE_SIDED_KEPT:
                del self.marks[mark.peer]
                self.changed = True
        asked = ((peer, self.question(peer)) for peer in up)
        return [(peer, question) for peer, question in asked if question is not None]

    def settle(self, marks: dict[str, int]) -> None:
        """A heal saw these marks (their serials by peer)."""
        for peer, serial in marks.items():
            if peer in self.marks and self.marks[peer].serial == serial:
                del self.marks[peer]
                self.changed = True

    def settle_met(self, healed: Collection[str], *, of: str) -> None:
        """A heal covered ``healed``, this node too if ``of`` is among them, without seeing the marks."""
        if of in healed:
            self.settle({mark.peer: mark.serial for mark in self.open if mark.peer in healed})

    def forget(self, known: Iterable[str]) -> None:
        """Only these are members still."""
        for peer in set(self.marks).difference(known):
            del self.marks[peer]
            self.changed = True

    @property
    def open(self) -> list[DownRecord]:
        """Splits that were seen from both sides and are not healed."""
        return [mark for mark in self.marks.values() if mark.met == "mutual"]

    def _set(self, mark: DownRecord) -> None:
        self.marks[mark.peer] = mark
        self.changed = True
