"""Agreement on which node publishes a will whose connection has ended: a node asks all others that are up.

See the rules of ``wills``. The node that asks is the *claimant*; the others answer that a will is over
(void), that another node comes first (wait), or neither: then it is granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gossamer.mqtt.session.will_nodes import UNREACHABLE_TIMEOUT, End
from gossamer.mqtt.session.will_rows import (
    Key,
    WillRows,
    comes_first,
    former_of,
    key_of,
    node_of,
    number_of,
    origin_of,
    will_message_id,
)

BATCH = 500
"""Wills in one request."""
BACK_FOR = 60.0
"""Seconds for which the return of a client is remembered, longer than a node's death takes to be detected."""
GRANT_FOR = 10.0
DONE_FOR = 86_400.0
"""Seconds for which a will is kept as done, unless its node learns of it before."""
RETURNED_FOR = 300.0
"""The same where its node is up in a later creation, and has asked."""


@dataclass(kw_only=True, eq=False)
class WillAgreement(WillRows):
    """Asks for the wills that are due here, and answers other nodes that ask."""

    exposed: int = 0
    """Nodes that this one does not see may have wills of this creation up to this number."""
    decide_at: float = 0.0
    """Time by which nodes that may have published wills of an earlier creation of this one have been met."""
    granted: dict[Key, tuple[str, float]] = field(default_factory=dict)
    """Claimant to which a will was granted, and when."""
    publishing: dict[Key, list[Key]] = field(default_factory=dict)
    """Wills that are published and not safe yet, each with its former keys."""
    returned_at: dict[str, float] = field(default_factory=dict)
    """Clients that have connected to any node, and when."""
    _swept: float = 0.0

    def due(self, now: float) -> tuple[list[Key], dict[str, int]]:
        """Return wills to request from all nodes that are up, and by origin of these that is down, how many
        of its changes were seen. Pass the answers to :meth:`settle`. Call it about once a second."""
        self._forget(now)
        if self.table is None:
            return [], {}
        if self.nodes.majority():
            self.nodes.settle(now)
            # The first by name; the others take what it leaves.
            rank = sum(name < self.node for name in self.nodes.known)
            for key, orphan in list(self.orphans.items()):
                if now >= orphan.since + 2 * self.grace * rank:
                    del self.orphans[key]
                    self.hold_for(key, orphan.row, orphan.since, orphan.ready)
        ready = (key for key, one in self.held.items() if one.ready <= now and key not in self.publishing)
        keys = [key for key in ready if self._may_publish(key, now)]
        del keys[BATCH:]
        ends = self.nodes.ends
        return keys, {origin: ends[origin].position for key in keys if (origin := origin_of(key)) in ends}

    def former(self, keys: Iterable[Key]) -> dict[str, list[str]]:
        """Return by stamp of a will whose session moved, the stamps that it had before."""
        rows = {key: self.held[key].row for key in keys}
        return {key[0]: row[4] for key, row in rows.items() if len(row) > 4}

    def asked(
        self,
        claimant: str,
        keys: Iterable[object],
        ends: Mapping[str, int],
        former: Mapping[str, list[str]],
        now: float,
    ) -> tuple[list[Key], list[Key]]:
        """Answer ``claimant``, which requests these wills: those that are published or void, and those that
        have to wait; the rest is granted. ``ends`` as from :meth:`due`, ``former`` from :meth:`former`."""
        void, wait = [], []
        for key in map(key_of, keys):
            before = [(stamp, key[1]) for stamp in former.get(key[0], ())]
            origin = origin_of(key)
            name, _, creation = origin.rpartition("/")
            end = self.nodes.ends.get(origin)
            granted, _ = self.granted.get(key, ("", 0.0))
            if (
                any(map(self.is_done, (key, *before)))
                or self._is_back(claimant, key, now)
                or (name == self.node != claimant and self._settled_here(key, int(creation)))
            ):
                void.append(key)
            elif (
                origin == self.origin
                or key in self.publishing
                or (self.nodes.known.get(name) == int(creation) and name != claimant)
                or (key in self.held and comes_first(self.node, claimant, key))
                or (granted in self.nodes.known and comes_first(granted, claimant, key))
                or (self.copy_of(key) and name != claimant)
                or any(node_of(one) == self.node and self.is_mine(one) for one in before)
            ):
                wait.append(key)
            elif end is not None and _saw_end(
                end,
                key,
                ends.get(origin),
                again=name == claimant and self.nodes.is_later(name, creation),
            ):
                void.append(key)
            else:
                self.granted |= dict.fromkeys((key, *before), (claimant, now))
        return void, wait

    def settle(
        self, keys: Iterable[Key], answers: Iterable[tuple[list[object], list[object]] | None], now: float
    ) -> list[tuple[Key, bytes, int]]:
        """Take the ``answers`` of all nodes to :meth:`due`, None where one is missing; return key, record and
        message id of each will to publish now. Then call :meth:`published`."""
        void: set[Key] = set()
        wait: set[Key] = set()
        for answer in answers:
            if answer is None:
                return []
            void |= set(map(key_of, answer[0]))
            wait |= set(map(key_of, answer[1]))
        records = []
        for key in keys:
            one = self.held.get(key)
            if one is None or (key in wait and key not in void):
                continue
            before = former_of(one.row, key[1])
            if any(given[0] in self.nodes.known for k in (key, *before) if (given := self.granted.get(k))):
                # One that comes first has asked meanwhile.
                continue
            if key in void or (one.delayed and self.connected(key[1])):
                self.drop(key)
            elif self._may_publish(key, now):
                records.append((key, one.row[0], will_message_id(one.row, key[1])))
                self.publishing[key] = before
        return records

    def published(self, key: Key, now: float) -> None:
        """Finish a will that is safe at every receiver, or could not be published."""
        for each in (key, *self.publishing.pop(key)):
            self.finish(each, now)

    def forget_done(self, keys: Iterable[Key]) -> None:
        """Delete the rows that these wills are done, once their node has learned it."""
        for key in keys:
            if self.done.pop(key, None) is not None and self.table is not None:
                self.table.delete(key)

    def _forget(self, now: float) -> None:
        self.returned_at = {c: since for c, since in self.returned_at.items() if since + BACK_FOR >= now}
        self.granted = {k: g for k, g in self.granted.items() if g[1] + GRANT_FOR >= now}
        self.nodes.ends = {at: end for at, end in self.nodes.ends.items() if end.since + DONE_FOR >= now}
        if now < self._swept + 60:
            return
        self._swept = now
        self.copies = {key: copy for key, copy in self.copies.items() if self.copy_of(key)}
        spent = []
        for key, since in self.done.items():
            name, _, creation = origin_of(key).rpartition("/")
            later = self.nodes.is_later(name, creation)
            if since + (RETURNED_FOR if later else DONE_FOR) < now:
                spent.append(key)
        self.forget_done(spent)

    def _may_publish(self, key: Key, now: float) -> bool:
        origin = origin_of(key)
        if origin == self.origin:
            own = number_of(key) > self.exposed and not former_of(self.held[key].row, key[1])
            return own or self.nodes.majority()
        if origin.rpartition("/")[0] == self.node:
            return now >= self.decide_at + (0 if self.nodes.majority() else UNREACHABLE_TIMEOUT)
        return self.nodes.majority() and self.nodes.is_over(origin, now)

    def _is_back(self, claimant: str, key: Key, now: float) -> bool:
        """Return whether the client of a delayed will is connected here, or was at any node after the
        connection of the will had ended."""
        row = None if self.table is None else self.table.rows_of(claimant).get(key)
        if not row or not row[1]:
            return False
        if self.connected(key[1]):
            return True
        back = self.returned_at.get(key[1])
        return back is not None and row[3] is not None and self.wall() - (now - back) > row[3] - row[1]

    def _settled_here(self, key: Key, creation: int) -> bool:
        """Return whether this node's disc covers one of its creations, and does not have that will."""
        return self.born <= creation < self.creation and key not in self.held


def _saw_end(end: End, key: Key, position: int | None, *, again: bool) -> bool:
    """Return whether ``end`` shows that a will is over, unseen by a claimant that saw ``position`` changes of
    its origin; ``again``: the claimant is that node in a later creation, whose disc may have been behind."""
    if key in end.keys:
        return False
    if position is not None:
        return end.position > position
    return again and number_of(key) <= end.number
