"""Strategies by which a member of a ``$share`` group is chosen, one class each, and the table of them.

EMQX's: ``random``; ``round_robin`` (each publisher goes round the members); ``round_robin_per_group`` (all
publishers together do); ``sticky`` (a publisher stays with its choice while that lasts); ``local`` (random
among members here, if there are any); ``hash_clientid`` and ``hash_topic`` (the same publisher, or topic, to
the same member while membership stays).

Rules: 1. Hashes are CRC-32, the same on all nodes and in all runs.  2. What is remembered of publishers is
bounded.
"""

from __future__ import annotations

import random
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import Any

from gossamer.config import SharedStrategy
from gossamer.routes.delivery import Delivery

__all__ = ["STRATEGIES", "Candidates", "GroupStrategy"]

_REMEMBERED = 4096


class Candidates:
    """Members of a group that can take a message: those here that fit, and how many other nodes have.

    Members here are in the order of joining and come first, nodes in the order of names.
    """

    __slots__ = ("_fits", "_here", "_local", "_others", "total")

    def __init__(
        self,
        here: dict[Any, Delivery],
        fits: Callable[[Any], bool],
        *,
        local: int,
        others: list[tuple[str, int]],
        total: int,
    ) -> None:
        self._here = here
        self._fits = fits
        self._local = local
        self._others = others
        self.total = total

    def at(self, place: int) -> Delivery | str | None:
        """Return the candidate at ``place`` of ``total``: a member here, or the name of its node."""
        if place < self._local:
            # A member that does not fit is passed over for the next one.
            here = self._here
            for subscriber in chain(islice(here, place, None), here):
                if self._fits(subscriber):
                    return here[subscriber]
        place -= self._local
        for node, count in self._others:
            if place < count:
                return node
            place -= count
        return None

    def find(self, chosen: Any) -> Delivery | str | None:
        """Return the candidate that an earlier choice stands for: a subscriber here, or a node's name."""
        if isinstance(chosen, str):
            return chosen if any(node == chosen for node, _ in self._others) else None
        if chosen is None or chosen not in self._here or not self._fits(chosen):
            return None
        return self._here[chosen]


class GroupStrategy(ABC):
    """The choice for one group."""

    __slots__ = ("_rng",)

    ignores_room = False
    """Whether members that have no room now are chosen like the others, as long as they are connected."""
    prefers_local = False
    """Whether members elsewhere are chosen only where there is none here."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    @abstractmethod
    def choose(self, candidates: Candidates, publisher: str, topic: str) -> Delivery | str | None:
        """Return one of ``candidates``, of which there is at least one."""


class _Random(GroupStrategy):
    __slots__ = ()

    def choose(self, candidates: Candidates, publisher: str, topic: str) -> Delivery | str | None:
        return candidates.at(self._rng.randrange(candidates.total))


class _Local(_Random):
    __slots__ = ()

    prefers_local = True


class _RoundRobinPerGroup(GroupStrategy):
    __slots__ = ("_turn",)

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._turn = 0

    def choose(self, candidates: Candidates, publisher: str, topic: str) -> Delivery | str | None:
        turn = self._turn
        self._turn += 1
        return candidates.at(turn % candidates.total)


class _HashClientId(GroupStrategy):
    __slots__ = ()

    ignores_room = True

    def choose(self, candidates: Candidates, publisher: str, topic: str) -> Delivery | str | None:
        return candidates.at(zlib.crc32(publisher.encode()) % candidates.total)


class _HashTopic(GroupStrategy):
    __slots__ = ()

    ignores_room = True

    def choose(self, candidates: Candidates, publisher: str, topic: str) -> Delivery | str | None:
        return candidates.at(zlib.crc32(topic.encode()) % candidates.total)


class _PerPublisher(GroupStrategy):
    """Remembers something of each publisher, of the latest :data:`_REMEMBERED` ones."""

    __slots__ = ("_of",)

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._of: dict[str, Any] = {}

    def _remember(self, publisher: str, what: Any) -> None:
        if len(self._of) >= _REMEMBERED:
            del self._of[next(iter(self._of))]
        self._of[publisher] = what


class _RoundRobin(_PerPublisher):
    __slots__ = ()

    def choose(self, candidates: Candidates, publisher: str, topic: str) -> Delivery | str | None:
        turn = self._of.pop(publisher, None)
        if turn is None:
            # Publishers begin at different members, or many short ones would all use the first.
            turn = self._rng.randrange(candidates.total)
        self._remember(publisher, turn + 1)
        return candidates.at(turn % candidates.total)


class _Sticky(_PerPublisher):
    __slots__ = ()

    ignores_room = True

    def choose(self, candidates: Candidates, publisher: str, topic: str) -> Delivery | str | None:
        found = candidates.find(self._of.pop(publisher, None))
        if found is None:
            found = candidates.at(self._rng.randrange(candidates.total))
        self._remember(publisher, found.subscriber if isinstance(found, Delivery) else found)
        return found


STRATEGIES: Mapping[SharedStrategy, type[GroupStrategy]] = {
    "random": _Random,
    "round_robin": _RoundRobin,
    "round_robin_per_group": _RoundRobinPerGroup,
    "sticky": _Sticky,
    "local": _Local,
    "hash_clientid": _HashClientId,
    "hash_topic": _HashTopic,
}
"""The implementation of each choice of ``mqtt.shared_subscription_strategy``."""
