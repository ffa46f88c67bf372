"""Strategies that choose a member of a ``$share`` group, one function each, and the table of them.

EMQX's: ``random``; ``round_robin`` (each publisher goes round the members); ``round_robin_per_group`` (all
publishers together do); ``sticky`` (a publisher stays with its choice while that lasts); ``local`` (random
among members here, if there are any); ``hash_clientid`` and ``hash_topic`` (the same publisher, or topic, to
the same member while membership stays).

Rules: 1. Hashes are CRC-32, the same on all nodes and in all runs.  2. Memory of publishers is bounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, TypeVar
from zlib import crc32

from gossamer.config import SharedStrategy
from gossamer.routes.delivery import Delivery

T = TypeVar("T")

_REMEMBERED = 4096


class Candidates:
    """Members of a group that can take a message: those here that fit, and the numbers of other nodes.

    Members here come first, in the order of joining; then nodes, in the order of names.
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

    def at(self, number: int) -> Delivery | str | None:
        """Return the candidate at ``number`` modulo ``total``: a member here, or the name of its node.

        The turns of a member here that does not fit are spread over those that do, here and elsewhere.
        """
        here, local = self._here, self._local
        lap, place = divmod(number, self.total)
        if place < local:
            subscriber = next(islice(here, place, None))
            if self._fits(subscriber):
                return here[subscriber]
            fitting = list(filter(self._fits, here))
            place = lap % (len(fitting) + self.total - local)
            if place < len(fitting):
                return here[fitting[place]]
            local = len(fitting)
        place -= local
        for node, members in self._others:
            if place < members:
                return node
            place -= members
        return None

    def find(self, chosen: object) -> Delivery | str | None:
        """Return the candidate of an earlier choice, a subscriber here or a node's name, if it still fits."""
        if isinstance(chosen, str):
            return chosen if any(node == chosen for node, _ in self._others) else None
        if chosen is None or chosen not in self._here or not self._fits(chosen):
            return None
        return self._here[chosen]


Choose = Callable[[Candidates, str, str], Delivery | str | None]
"""``choose(candidates, publisher, topic)`` returns one of the candidates, of which there is at least one."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy; ``make(rng)`` returns the function by which one group chooses."""

    make: Callable[[random.Random], Choose]
    ignores_room: bool = False
    """Whether connected members without room are chosen like the others."""
    prefers_local: bool = False
    """Whether members of other nodes are chosen only where there is none here."""


def _random(rng: random.Random) -> Choose:
    return lambda candidates, _publisher, _topic: candidates.at(rng.getrandbits(32))


def _round_robin(rng: random.Random) -> Choose:
    turns: dict[str, int] = {}

    def choose(candidates: Candidates, publisher: str, _topic: str) -> Delivery | str | None:
        turn = turns.pop(publisher, None)
        if turn is None:
            # Publishers begin at different members, or many short ones would all use the first.
            turn = rng.getrandbits(32)
        _remember(turns, publisher, turn + 1)
        return candidates.at(turn)

    return choose


def _round_robin_per_group(_rng: random.Random) -> Choose:
    turns = count()
    return lambda candidates, _publisher, _topic: candidates.at(next(turns))


def _sticky(rng: random.Random) -> Choose:
    chosen: dict[str, object] = {}

    def choose(candidates: Candidates, publisher: str, _topic: str) -> Delivery | str | None:
        found = candidates.find(chosen.pop(publisher, None))
        if found is None:
            found = candidates.at(rng.getrandbits(32))
        _remember(chosen, publisher, found.subscriber if isinstance(found, Delivery) else found)
        return found

    return choose


def _hash_clientid(_rng: random.Random) -> Choose:
    return lambda candidates, publisher, _topic: candidates.at(crc32(publisher.encode()))


def _hash_topic(_rng: random.Random) -> Choose:
    return lambda candidates, _publisher, topic: candidates.at(crc32(topic.encode()))


def _remember(of: dict[str, T], publisher: str, what: T) -> None:
    if len(of) >= _REMEMBERED:
        del of[next(iter(of))]
    of[publisher] = what


STRATEGIES: Mapping[SharedStrategy, Strategy] = {
    "random": Strategy(_random),
    "round_robin": Strategy(_round_robin),
    "round_robin_per_group": Strategy(_round_robin_per_group),
    "sticky": Strategy(_sticky, ignores_room=True),
    "local": Strategy(_random, prefers_local=True),
    "hash_clientid": Strategy(_hash_clientid, ignores_room=True),
    "hash_topic": Strategy(_hash_topic, ignores_room=True),
}
"""Strategy of each value of ``mqtt.shared_subscription_strategy``."""
