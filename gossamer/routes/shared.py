"""Shared subscriptions: one member in the whole cluster of each matching ``$share`` group gets a message.

The node where a message is published chooses. It has its own members and, from the ``routes`` table (key
``$share/group/filter``, value a :class:`Count`), the numbers of other nodes. It chooses among all members; if
that is one of another node, the record goes there marked with the group, and that node chooses among its own.
No third node takes part, so exactly one member is chosen.

Members that can take a message now come first, then those that are connected, then the others: a session
whose client is away, or does not acknowledge, gets none while another member has room. This is exact for
members of this node, and up to half a second old for others. Strategies that ignore room (``sticky`` and the
hashes) skip only members that are not connected.

What was dealt to a member that then takes nothing, while another has room, is taken back: see ``stuck``.

The choice among them is made by :mod:`gossamer.routes.strategies`.

Rule: a node that is down is not chosen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from gossamer.config import SharedStrategy
from gossamer.routes.delivery import Delivery, Subscriber
from gossamer.routes.index.filters import FilterIndex
from gossamer.routes.kernel import filter_index
from gossamer.routes.strategies import STRATEGIES, Candidates, Strategy
from gossamer.routes.topics import split_shared

_FREE, _ONLINE, _ANY = range(3)
"""Levels of readiness of a member, the places of the first three fields of :class:`Count`."""
_BITS = 15
_MOST = (1 << _BITS) - 1


class Count(NamedTuple):
    """Counts of members on one node: ``free`` are connected with empty queues and not stuck, ``persistent``
    outlive it."""

    free: int
    online: int
    members: int
    persistent: int

    def row(self) -> int:
        """Return the value of its row; 0: no members."""
        if self.free == self.members and not self.persistent:
            return self.members
        parts = (min(part, _MOST) << _BITS * place for place, part in enumerate(self))
        return sum(parts) | 1 << 4 * _BITS

    @staticmethod
    @lru_cache(1024)
    def of(row: int) -> Count:
        """Return the count in a row."""
        if not row >> 4 * _BITS:
            return Count(row, row, row, 0)
        return Count(*(row >> _BITS * place & _MOST for place in range(4)))


def _anybody(_subscriber: Subscriber) -> bool:
    return True


_FITS: tuple[Callable[[Subscriber], bool], ...] = (attrgetter("ready"), attrgetter("online"), _anybody)


def is_shared(topic_filter: str) -> bool:
    """Return whether a filter is that of a share group."""
    return topic_filter.startswith("$share/")


class Group:
    """Members of one group for one filter: those here one by one, those of other nodes by number.

    ``up(node)`` returns whether it can be forwarded to.
    """

    __slots__ = (
        *("_full", "_one_of", "_strategy", "_up"),
        *("expected", "filter", "members", "name", "others", "row", "stuck"),
    )

    def __init__(
        self,
        name: str,
        topic_filter: str,
        strategy: Strategy,
        rng: random.Random,
        up: Callable[[str], bool],
    ) -> None:
        self.name = name
        """``$share/group/filter``."""
        self.filter = topic_filter
        self.members: dict[Subscriber, Delivery] = {}
        self.others: dict[str, int] = {}
        """Rows of other nodes; see :meth:`Count.of`."""
        self.expected: set[str] = set()
        """Nodes that are away, with persistent members, whose rows are gone."""
        self.row = 0
        """Value of this node's row: :meth:`count` when it was last written."""
        self.stuck: dict[Subscriber, None] = {}
        """Members here that had no room at the last two looks, and took nothing in between."""
        self._full: dict[Subscriber, int] = {}
        """Members here that had no room at the last look, with their progress."""
        self._strategy = strategy
        self._one_of = strategy.make(rng)
        self._up = up

    def pick(
        self, publisher: str, topic: str, *, online: bool = False, besides: str | None = None
    ) -> Delivery | str | None:
        """Choose the receiver of a message: a member here, the name of a node that will choose, or None.
        ``online``: only members that are connected; ``besides``: not those of that node.
        """
        others = self.others
        up = [(node, Count.of(others[node])) for node in sorted(others) if node != besides and self._up(node)]
        return self._choose(publisher, topic, up, _ONLINE if online else _ANY)

    def pick_here(self, publisher: str, topic: str) -> Delivery | None:
        """Choose the member here for a message that another node has forwarded to this group."""
        found = self._choose(publisher, topic, [])
        return found if isinstance(found, Delivery) else None

    def expects(self) -> bool:
        """Return whether it has persistent members on nodes that are away."""
        if self.expected:
            return True
        return any(Count.of(row).persistent and not self._up(node) for node, row in self.others.items())

    def look(self) -> None:
        """Find the members here that are stuck. Strategies that ignore room leave them what they have."""
        if self._strategy.ignores_room:
            return
        before = self._full
        self._full = {
            member: member.delivered for member in self.members if member.online and not member.ready
        }
        self.stuck = {member: None for member, count in self._full.items() if before.get(member) == count}

    def has_room(self) -> bool:
        """Return whether a member would take a message at once, as far as this node knows."""
        if any(member.ready for member in self.members):
            return True
        return any(Count.of(row).free and self._up(node) for node, row in self.others.items())

    def count(self) -> Count:
        """Count the members here."""
        free = online = persistent = 0
        for subscriber, delivery in self.members.items():
            if subscriber.online:
                online += 1
                free += not subscriber.queue and subscriber not in self.stuck
            persistent += delivery.persistent
        return Count(free, online, len(self.members), persistent)

    def _choose(
        self, publisher: str, topic: str, up: list[tuple[str, Count]], last: int = _ANY
    ) -> Delivery | str | None:
        members = self.members
        strategy = self._strategy
        for level in range(_ONLINE if strategy.ignores_room else _FREE, last + 1):
            fits = _FITS[level]
            total = local = len(members) if any(map(fits, members)) else 0
            others: list[tuple[str, int]] = []
            if not (local and strategy.prefers_local):
                for node, count in up:
                    if there := count[level]:
                        others.append((node, there))
                        total += there
            if total:
                candidates = Candidates(members, fits, local=local, others=others, total=total)
                return self._one_of(candidates, publisher, topic)
        return None


class SharedIndex:
    """All groups, found by topic. ``changed(filter)`` is called when a group is added or removed."""

    __slots__ = ("_changed", "_filters", "_rng", "_strategy", "_up", "groups")

    def __init__(
        self,
        strategy: SharedStrategy,
        rng: random.Random,
        up: Callable[[str], bool],
        changed: Callable[[str], None],
    ) -> None:
        self._strategy = STRATEGIES[strategy]
        self._rng = rng
        self._up = up
        self._changed = changed
        self.groups: dict[str, Group] = {}
        """By name; the publish path tests this, which costs less than ``len`` of the index."""
        self._filters: FilterIndex[dict[str, Group]] = filter_index()

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(tuple(self.groups.values()))

    def get(self, name: str) -> Group | None:
        """Return the group of ``$share/group/filter``, if there is one."""
        return self.groups.get(name)

    def match(self, topic: str) -> tuple[Group, ...]:
        """Return the groups whose filters match a topic."""
        return tuple(group for groups in self._filters.match(topic) for group in groups.values())

    def join(self, name: str, delivery: Delivery) -> None:
        """Add or replace a member here."""
        self._make(name).members[delivery.subscriber] = delivery

    def leave(self, name: str, subscriber: Subscriber) -> None:
        """Remove a member here."""
        group = self.groups.get(name)
        if group is not None:
            group.members.pop(subscriber, None)
            self._drop_empty(group)

    def set_node(self, name: str, node: str, count: int) -> int:
        """Set the row of a node, 0 for none; return what it was."""
        group = self.groups.get(name)
        if group is None:
            if count <= 0:
                return 0
            group = self._make(name)
        before = group.others.pop(node, 0)
        if count > 0:
            group.others[node] = count
            group.expected.discard(node)
        else:
            self._drop_empty(group)
        return before

    def expect(self, name: str, node: str) -> None:
        """Expect persistent members of ``node``, which is away, to return with it."""
        self._make(name).expected.add(node)

    def forget(self, name: str, node: str) -> None:
        """Expect no members of ``node`` any more."""
        group = self.groups.get(name)
        if group is not None:
            group.expected.discard(node)
            self._drop_empty(group)

    def _make(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is not None:
            return group
        topic_filter = split_shared(name).filter
        group = self.groups[name] = Group(name, topic_filter, self._strategy, self._rng, self._up)
        groups = self._filters.get(topic_filter)
        if groups is None:
            self._filters.put(topic_filter, {name: group})
        else:
            groups[name] = group
        self._changed(topic_filter)
        return group

    def _drop_empty(self, group: Group) -> None:
        if group.members or group.others or group.expected:
            return
        del self.groups[group.name]
        groups = self._filters.get(group.filter)
        if groups is not None:
            del groups[group.name]
            if not groups:
                self._filters.remove(group.filter)
        self._changed(group.filter)
