"""Exchanging whole tables: joining through seeds, and the anti-entropy that repairs what gossip lost.

Rules: 1. A join is an exchange with each seed; it succeeds with the first that answers and reports the
others.
2. After a join exchanges follow quickly, then ever more slowly until ``sync_interval``: thirty nodes that
start at once know each other after the first two.  3. The interval grows with the logarithm of a cluster
above 32.
4. Contact with an unknown member, or the return of a dead one, calls for an exchange with it; few run at
once.
5. A node that left takes no part until its own side asks to join.
"""

from __future__ import annotations

import math
import random
from typing import Literal

from gossamer.gossip.hints import PartitionHints
from gossamer.gossip.outbox import Outbox
from gossamer.gossip.settings import GossipSettings
from gossamer.gossip.steps import JoinResult, Token
from gossamer.gossip.table import SUSPECT, MemberTable
from gossamer.gossip.timers import Timers
from gossamer.gossip.verdicts import Verdicts
from gossamer.gossip.wire import Refuse, Sync
from gossamer.network import Address

__all__ = ["Syncer"]

_EARLY = (0.3, 1.0, 3.0, 8.0)
"""Seconds from a join to the exchanges that follow it."""
_PARALLEL = 4


class _Join:
    __slots__ = ("failed", "joined", "token", "waiting")

    def __init__(self, token: Token, waiting: int) -> None:
        self.token = token
        self.waiting = waiting
        self.joined: list[Address] = []
        self.failed: dict[Address, str] = {}


class Syncer:
    """Runs the exchanges of this node."""

    def __init__(
        self,
        table: MemberTable,
        outbox: Outbox,
        timers: Timers,
        hints: PartitionHints,
        verdicts: Verdicts,
        settings: GossipSettings,
        rng: random.Random,
    ) -> None:
        self._table = table
        self._outbox = outbox
        self._timers = timers
        self._hints = hints
        self._verdicts = verdicts
        self._settings = settings
        self._rng = rng
        self._number = 0
        self._running: dict[int, tuple[Address, _Join | None]] = {}
        self._addresses: dict[Address, int] = {}

    def start(self, now: float) -> None:
        """Begin the periodic exchanges."""
        self._timers.at(now + self._rng.uniform(0.5, 1.0) * self._interval(), self._periodic)

    def join(self, token: Token, addresses: tuple[Address, ...], now: float) -> None:
        """Exchange with every seed that is not this node."""
        me = (self._table.me.host, self._table.me.port)
        seeds = [address for address in dict.fromkeys(addresses) if address != me]
        if not seeds:
            self._outbox.answer(token, JoinResult())
            return
        join = _Join(token, len(seeds))
        for address in seeds:
            self._open(address, "join", join, now)
        for seconds in _EARLY:
            self._timers.at(now + seconds * self._rng.uniform(0.7, 1.3), self._with_anybody)

    def exchange(self, address: Address, now: float) -> None:
        """Exchange with one address soon, unless that is under way."""
        if address not in self._addresses and len(self._addresses) < _PARALLEL:
            self._open(address, "sync", None, now)

    def requested(self, token: Token, sync: Sync, by: str, now: float) -> None:
        """A peer sent its table: take it in and answer with ours."""
        reason = self._refusal(sync, now)
        if reason:
            self._outbox.reply(token, Refuse(reason))
            return
        self._merge(sync, by, now)
        self._outbox.reply(token, Sync("reply", self._table.records(now)))

    def replied(self, number: int, answer: Sync | Refuse | None, by: str, now: float) -> None:
        """The other table, or why there is none."""
        address, join = self._end(number)
        if isinstance(answer, Sync):
            self._merge(answer, by, now)
            if join is not None:
                join.joined.append(address)
        elif join is not None:
            join.failed[address] = answer.reason if isinstance(answer, Refuse) else "no gossamer answer"
        self._settle(join)

    def failed(self, number: int, reason: str) -> None:
        """The stream of an exchange failed."""
        address, join = self._end(number)
        if join is not None:
            join.failed[address] = reason
        self._settle(join)

    def _open(self, address: Address, kind: Literal["join", "sync"], join: _Join | None, now: float) -> None:
        self._number += 1
        self._running[self._number] = (address, join)
        self._addresses[address] = self._number
        message = Sync(kind, self._table.records(now))
        self._outbox.stream(("sync", self._number), address, message, self._settings.stream_timeout)

    def _end(self, number: int) -> tuple[Address, _Join | None]:
        address, join = self._running.pop(number, (("", 0), None))
        if self._addresses.get(address) == number:
            del self._addresses[address]
        if join is not None:
            join.waiting -= 1
        return address, join

    def _settle(self, join: _Join | None) -> None:
        if join is not None and join.waiting == 0:
            self._outbox.answer(join.token, JoinResult(tuple(join.joined), join.failed))

    def _refusal(self, sync: Sync, now: float) -> str:
        if sync.kind != "join" or not sync.records:
            return ""
        joiner, me = sync.records[0].alive, self._table.me
        here = (joiner.host, joiner.port)
        if joiner.name == me.name:
            return "" if joiner.id == me.id else "name-taken"
        entry = self._table.get(joiner.name)
        if entry is None or entry.state > SUSPECT or entry.id == joiner.id or entry.address == here:
            return ""
        # The holder may be the joiner's own former life at another address: look, so that the next try
        # succeeds.
        self._verdicts.doubt(entry, now)
        return "name-taken"

    def _merge(self, sync: Sync, by: str, now: float) -> None:
        settled_for = now - self._table.changed_at
        changed = [record.alive.name for record in sync.records if self._verdicts.merge(record, by, now)]
        if sync.kind == "sync" and changed:
            self._hints.surprised(sorted(changed), settled_for=settled_for, now=now)

    def _periodic(self, now: float) -> None:
        self._timers.at(now + self._interval() * self._rng.uniform(0.9, 1.1), self._periodic)
        self._with_anybody(now)

    def _with_anybody(self, now: float) -> None:
        for entry in self._table.sample(self._rng, 1):
            self.exchange(entry.address, now)

    def _interval(self) -> float:
        size = self._table.size
        scale = 1 if size <= 32 else math.ceil(math.log2(size) - 5) + 1
        return self._settings.sync_interval * scale
