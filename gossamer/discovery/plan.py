"""Plan of the autocluster loop: addresses to join next, retry times, and log notices. Pure.

Rules: 1. Every discovered address that is not a live member is tried, dead ones for ever: two islands that
each found half of the seeds must still become one.  2. Waits double from ``first`` to ``longest`` with
jitter, and start over when anything changes.  3. A notice is given when the news about an address differs
from the last about it, never once a try.  4. A node that left on its operator's word tries nothing.  5. The
loop has settled once there is nobody to look for, or one of those looked for is a live member.  6. What is
not looked for any more is forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gossamer.config import Endpoint
from gossamer.discovery.strategy import Discovered
from gossamer.gossip import JoinResult
from gossamer.network import Address

_ADVICE = {
    "refused": "nothing listens there; is the node started, is the port cluster.port?",
    "timeout": "no answer; is a firewall in between?",
    "unreachable": "no route to that address",
    "silent": "something takes connections there and does not answer; is it a node, and is it overloaded?",
    "closed": "it hung up; are cluster.env and node.cookie the same, and is it that node itself?",
    "name-taken": "a living member has this node's name; give each node a node.name of its own",
    "left": "that node left its cluster and stays alone until it is told to join",
    "unanswered": "this node's gossip did not answer; it is restarting or overloaded",
}

_NOT_THERE = frozenset(("joined", "refused", "timeout", "unreachable", "unanswered", "left"))
"""News of targets that do not keep this node out of a cluster, because none is seen there."""


def advice(reason: str) -> str:
    """Return what an operator can do about a join that failed for ``reason``."""
    return _ADVICE.get(reason, "check cluster.env, node.cookie and the clocks of both nodes")


@dataclass(frozen=True, slots=True)
class Notice:
    """A change that is worth a log line. ``news``: ``joined``, ``found``, or why not."""

    target: str
    news: str


@dataclass(slots=True)
class JoinProgress:
    """State of the loop that the rest of the node reads without a call."""

    rejections: Mapping[str, str] = field(default_factory=dict)
    """Seeds that are there and do not let this node in, and why; none once it is in a cluster."""


class Plan:
    """The loop's knowledge between two tries."""

    def __init__(self, *, rng: random.Random, first: float = 0.25, longest: float = 5.0) -> None:
        self._rng = rng
        self._first = min(first, longest)
        self._longest = longest
        self._wait = self._first
        self._told: dict[str, str] = {}
        self._failing: set[str] = set()
        self.settled = False

    @property
    def problems(self) -> dict[str, str]:
        """Targets that were looked for and not joined, and why, as of the latest try."""
        return {target: news for target, news in self._told.items() if news != "joined"}

    @property
    def rejections(self) -> dict[str, str]:
        """Seeds that are there and keep this node from its first cluster, and why."""
        return {
            target: news
            for target, news in self._told.items()
            if not self.settled and news not in _NOT_THERE and target not in self._failing
        }

    def targets(self, found: Discovered, *, local: Address, live: Collection[Address]) -> tuple[Address, ...]:
        """Return the addresses to join now."""
        others = [address for address in found.addresses if address != local]
        wanted = {str(Endpoint(*address)): address for address in others}
        self._told = {
            # A live address was admitted by a member; a later refusal is news.
            target: "joined" if wanted.get(target) in live else news
            for target, news in self._told.items()
            if target in wanted or target in self._failing or target in found.problems
        }
        if (not others and not found.problems) or any(address in live for address in others):
            self.settled = True
        return tuple(address for address in others if address not in live)

    def looked(self, found: Discovered) -> list[Notice]:
        """Handle the result of a look-up; return notices of look-ups that work again."""
        over = sorted(self._failing - set(found.problems))
        self._failing = set(found.problems)
        for target in over:
            self._told.pop(target, None)
        return [Notice(target, "found") for target in over]

    def tried(self, found: Discovered, result: JoinResult) -> list[Notice]:
        """Take in the outcome of a try; gives back what is new."""
        news = {str(Endpoint(*address)): "joined" for address in result.joined}
        news |= {str(Endpoint(*address)): reason for address, reason in result.failed.items()}
        news |= found.problems
        notices = self._news(news.items())
        if result.joined:
            self.settled = True
        self._wait = self._first if notices else min(self._wait * 2, self._longest)
        return notices

    def pause(self) -> float:
        """Seconds until the next try."""
        return self._wait * self._rng.uniform(0.8, 1.2)

    def rest(self) -> float:
        """Return the seconds until the next look-up if there was nothing to join."""
        self._wait = self._first
        return self._longest * self._rng.uniform(0.8, 1.2)

    def _news(self, items: Iterable[tuple[str, str]]) -> list[Notice]:
        notices = [Notice(target, news) for target, news in items if self._told.get(target) != news]
        for notice in notices:
            self._told[notice.target] = notice.news
        return notices
