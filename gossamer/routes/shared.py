"""Shared subscriptions: of each ``$share`` group that matches, exactly one member in the whole cluster gets a
message.

The node where a message is published chooses. It knows its own members and, from the ``routes`` table (key
``$share/group/filter``, value the number of members), how many every other node has. It chooses among all
members; where the choice falls on another node, the record goes there marked with the group, and that node
chooses among its own. Nobody else is asked, so nobody else can choose as well.

Strategies, EMQX's: ``random``; ``round_robin`` (each publisher goes round the members);
``round_robin_per_group`` (all publishers together do); ``sticky`` (a publisher stays with its choice while
that lasts); ``local`` (random among members here, if there are any); ``hash_clientid`` and ``hash_topic``
(the same publisher, or topic, to the same member while membership stays).

Rules: 1. Hashes are CRC-32, the same on all nodes and in all runs.  2. Members are in the order of joining,
nodes in the order of names.  3. A node that is down is not chosen.  4. What is remembered of publishers is
bounded.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

from gossamer.routes.delivery import Delivery
from gossamer.routes.filters import FilterIndex
from gossamer.routes.kernel import filter_index
from gossamer.routes.topics import split_shared

__all__ = ["Group", "SharedIndex", "Strategy", "is_shared"]

Strategy = Literal[
    "random", "round_robin", "round_robin_per_group", "sticky", "local", "hash_clientid", "hash_topic"
]

_REMEMBERED = 4096


def is_shared(topic_filter: str) -> bool:
    """Whether a filter is that of a share group."""
    return topic_filter.startswith("$share/")


class Group:
    """The members of one group for one filter: those here one by one, those elsewhere by their number.

    ``up`` says whether a node can be sent to.
    """

    __slots__ = ("_remembered", "_rng", "_strategy", "_turn", "_up", "filter", "members", "name", "others")

    def __init__(
        self, name: str, topic_filter: str, strategy: Strategy, rng: random.Random, up: Callable[[str], bool]
    ) -> None:
        self.name = name
        """``$share/group/filter``."""
        self.filter = topic_filter
        self.members: dict[Any, Delivery] = {}
        self.others: dict[str, int] = {}
        self._strategy = strategy
        self._rng = rng
        self._up = up
        self._turn = 0
        self._remembered: dict[str, Any] = {}

    def pick(self, publisher: str, topic: str) -> Delivery | str | None:
        """Who gets a message: a member here, the name of a node that is to choose, or nobody."""
        local = len(self.members)
        others = [(node, count) for node, count in sorted(self.others.items()) if self._up(node)]
        if local and self._strategy == "local":
            others = []
        total = local + sum(count for _, count in others)
        if not total:
            return None
        if self._strategy == "sticky":
            return self._stay(publisher, local, others, total)
        return self._at(self._place(publisher, topic, total), local, others)

    def pick_here(self, publisher: str, topic: str) -> Delivery | None:
        """Which member here gets a message that another node has sent for this group."""
        if not self.members:
            return None
        found = self._at(self._place(publisher, topic, len(self.members)), len(self.members), [])
        return found if isinstance(found, Delivery) else None

    def _place(self, publisher: str, topic: str, total: int) -> int:
        match self._strategy:
            case "hash_clientid":
                return zlib.crc32(publisher.encode()) % total
            case "hash_topic":
                return zlib.crc32(topic.encode()) % total
            case "round_robin_per_group":
                self._turn += 1
                return (self._turn - 1) % total
            case "round_robin":
                turn = self._remembered.pop(publisher, None)
                if turn is None:
                    # Publishers begin at different members, or many short ones would all use the first.
                    turn = self._rng.randrange(total)
                self._remember(publisher, turn + 1)
                return int(turn) % total
            case _:
                return self._rng.randrange(total)

    def _stay(
        self, publisher: str, local: int, others: list[tuple[str, int]], total: int
    ) -> Delivery | str | None:
        chosen = self._remembered.pop(publisher, None)
        if isinstance(chosen, str):
            still = any(node == chosen for node, _ in others)
        else:
            still = chosen is not None and chosen in self.members
        if not still:
            found = self._at(self._rng.randrange(total), local, others)
            chosen = found.subscriber if isinstance(found, Delivery) else found
        self._remember(publisher, chosen)
        return chosen if isinstance(chosen, str) else self.members.get(chosen)

    def _at(self, place: int, local: int, others: list[tuple[str, int]]) -> Delivery | str | None:
        if place < local:
            for number, delivery in enumerate(self.members.values()):
                if number == place:
                    return delivery
        place -= local
        for node, count in others:
            if place < count:
                return node
            place -= count
        return None

    def _remember(self, publisher: str, what: Any) -> None:
        if len(self._remembered) >= _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[publisher] = what


class SharedIndex:
    """All groups, found by topic."""

    __slots__ = ("_filters", "_rng", "_strategy", "_up", "groups")

    def __init__(self, strategy: Strategy, rng: random.Random, up: Callable[[str], bool]) -> None:
        self._strategy = strategy
        self._rng = rng
        self._up = up
        self.groups: dict[str, Group] = {}
        """By name; a look at it costs the publish path less than ``len``."""
        self._filters: FilterIndex[dict[str, Group]] = filter_index()

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(tuple(self.groups.values()))

    def get(self, name: str) -> Group | None:
        """The group of ``$share/group/filter``."""
        return self.groups.get(name)

    def match(self, topic: str) -> tuple[Group, ...]:
        """The groups that want a topic."""
        return tuple(group for groups in self._filters.match(topic) for group in groups.values())

    def join(self, name: str, delivery: Delivery) -> bool:
        """Add or replace a member here; True where the group is new."""
        group, new = self._make(name)
        group.members[delivery.subscriber] = delivery
        return new

    def leave(self, name: str, subscriber: Any) -> bool:
        """Take a member out; True where the group is gone with it."""
        group = self.groups.get(name)
        if group is None or group.members.pop(subscriber, None) is None:
            return False
        return self._drop_empty(group)

    def set_node(self, name: str, node: str, count: int) -> tuple[int, bool]:
        """How many members a node has; how many it had, and whether the group is new or gone."""
        group = self.groups.get(name)
        if group is None and count <= 0:
            return 0, False
        new = False
        if group is None:
            group, new = self._make(name)
        before = group.others.pop(node, 0)
        if count > 0:
            group.others[node] = count
        return before, new or self._drop_empty(group)

    def _make(self, name: str) -> tuple[Group, bool]:
        group = self.groups.get(name)
        if group is not None:
            return group, False
        topic_filter = split_shared(name).filter
        group = self.groups[name] = Group(name, topic_filter, self._strategy, self._rng, self._up)
        groups = self._filters.get(topic_filter)
        if groups is None:
            self._filters.put(topic_filter, {name: group})
        else:
            groups[name] = group
        return group, True

    def _drop_empty(self, group: Group) -> bool:
        if group.members or group.others:
            return False
        del self.groups[group.name]
        groups = self._filters.get(group.filter)
        if groups is not None:
            del groups[group.name]
            if not groups:
                self._filters.remove(group.filter)
        return True
