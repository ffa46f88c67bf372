"""Dissemination: rounds of gossip, and push-pull, the exchange of tables.

A round sends queued statements to a few random live members, and to one that has been down for a short time
only, so that it can refute. Rounds run as long as statements are queued. Statements are also piggybacked on
every probe; rounds make them fast. Push-pull joins through seeds, and is the anti-entropy that repairs what
gossip lost.

Rules of push-pull:

1. A join is an exchange with each seed; it succeeds if one answers, and reports the others.
2. After a join exchanges follow quickly, then ever more slowly until ``sync_interval``: thirty nodes that
start at once know each other after the first two.  3. The interval grows with the logarithm of the size of a
cluster above 32.
4. Contact with an unknown member, or the return of a down one, triggers an exchange with it; few run at
once.
5. A node that left takes no part until its own processes ask to join.
6. Tables are compared before rows are sent: eight bytes if they are equal, eight bytes per row if not, and
then only the rows that one side lacks. A joiner sends itself and gets the table; a seed with many joiners at
once sends a sample to all but the first few of each second, and they ask the members in it.
7. News from an exchange is being spread already: it is repeated rarely, and not at all by a node that had an
empty table before.

Rejected: whole tables both ways, as in memberlist. Measured: a thousand simultaneous joiners decoded ten
million rows, of which one million were news.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from gossamer.gossip.steps import STREAM_TIMEOUT, JoinResult, Token
from gossamer.gossip.swim.core import Core, Part
from gossamer.gossip.swim.table import ALIVE, SUSPECT
from gossamer.gossip.swim.verdicts import Verdicts
from gossamer.gossip.wire import Compare, Record, Refuse, RowHashes, Sync
from gossamer.network import Address

_PACKETS_A_TARGET = 3
GOSSIP_TO_DEAD = 30.0
"""Seconds for which a down member still receives gossip, so that it can refute."""
_EARLY = (0.3, 1.0, 3.0, 8.0)
"""Delays in seconds of the exchanges after a join."""
_PARALLEL = 4
_SMALL = 128
"""Size up to which tables are always sent whole."""
_WHOLE_A_SECOND = 8
"""Number of joiners that get a larger table whole in one second."""
_SAMPLE = 64
_REPEATS = 2
_HASH = 8


class Gossiper(Part):
    """Gossip rounds of this node."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._running = False

    def start(self, now: float) -> None:
        """Start rounds, at a random phase, if statements are queued and no rounds run."""
        if not self._running and self._outbox.gossiping():
            self._running = True
            self._timers.at(now + self._rng.uniform(0, self._settings.gossip_interval), self._round)

    def at_once(self, now: float) -> None:
        """Run a round now."""
        self._running = True
        self._round(now)

    def _round(self, now: float) -> None:
        if not self._outbox.gossiping():
            self._running = False
            return
        self._timers.at(now + self._settings.gossip_interval, self._round)
        targets = self._table.sample(self._rng, self._settings.gossip_fanout)
        down = self._table.any_down(self._rng)
        if down is not None and now - down.since <= GOSSIP_TO_DEAD:
            targets.append(down)
        for entry in targets:
            self._outbox.gossip(entry, packets=_PACKETS_A_TARGET)


@dataclass(slots=True, eq=False)
class _Join:
    token: Token
    joined: list[Address] = field(default_factory=list)
    failed: dict[Address, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Exchange:
    address: Address
    step: Literal["join", "compare", "rows"]
    join: _Join | None = None


class PushPull(Part):
    """Push-pull exchanges of this node."""

    def __init__(self, core: Core, verdicts: Verdicts) -> None:
        super().__init__(core)
        self._verdicts = verdicts
        self._number = 0
        self._running: dict[int, _Exchange] = {}
        self._given_since = -1e9
        self._given = 0

    def start(self, now: float) -> None:
        """Start the periodic exchanges."""
        self._timers.at(now + self._rng.uniform(0.5, 1.0) * self._interval(), self._periodic)

    def join(self, token: Token, addresses: tuple[Address, ...], now: float) -> None:
        """Exchange with every seed that is not this node."""
        me = (self._table.me.host, self._table.me.port)
        seeds = [address for address in dict.fromkeys(addresses) if address != me]
        if not seeds:
            self._outbox.answer(token, JoinResult())
            return
        join = _Join(token)
        for address in seeds:
            self._ask(_Exchange(address, "join", join), Sync("join", [self._me()]))
        for seconds in _EARLY:
            self._timers.at(now + seconds * self._rng.uniform(0.7, 1.3), self._with_anybody)

    def exchange(self, address: Address, _now: float) -> None:
        """Compare tables with one address, unless that is under way."""
        under_way = {exchange.address for exchange in self._running.values()}
        if address not in under_way and len(under_way) < _PARALLEL:
            self._ask(_Exchange(address, "compare"), Compare(self._table.me, self._table.digest()))

    # ---- requests of peers ------------------------------------------------------------------------------

    def compared(self, token: Token, asked: Compare, now: float) -> None:
        """Answer a peer's question whether our tables are equal."""
        self._verdicts.alive(asked.me, now)
        alike = asked.digest == self._table.digest()
        self._outbox.reply(token, RowHashes(self._table.me, b"" if alike else _packed(self._table.hashes())))

    def requested(self, token: Token, sync: Sync, by: str, now: float) -> None:
        """Merge a peer's rows and answer with those that it wants."""
        reason = self._refusal(sync, now)
        if reason:
            self._outbox.reply(token, Refuse(reason))
            return
        if sync.kind == "join":
            self._merge(sync, by, now)
            self._outbox.reply(token, Sync("reply", self._rows_for_joiner(now)))
            return
        # The peer's hashes refer to our table before its rows change it.
        hashes = self._table.hashes()
        wanted = [hashes[one] for one in _unpacked(sync.wants) if one in hashes]
        self._merge(sync, by, now, repeats=_REPEATS)
        rows = [self._me(), *(self._table.row(name, now) for name in wanted if self._table.get(name))]
        self._outbox.reply(token, Sync("reply", rows))

    # ---- answers of peers -------------------------------------------------------------------------------

    def replied(self, number: int, answer: RowHashes | Sync | Refuse | None, by: str, now: float) -> None:
        """Handle an answer: a seed's table, a peer's hashes, requested rows, or a refusal."""
        exchange = self._running.pop(number, None)
        if exchange is None:
            return
        address, step, join = exchange.address, exchange.step, exchange.join
        if step == "compare" and isinstance(answer, RowHashes):
            self._differences(address, answer, now)
        elif step != "compare" and isinstance(answer, Sync):
            alone = len(self._table) == 0
            self._merge(answer, by, now, repeats=0 if alone else _REPEATS, told=step == "rows")
            if join is not None:
                join.joined.append(address)
                if not alone:
                    # The seed has only this node's row yet, not its other members.
                    self.exchange(address, now)
        elif join is not None:
            join.failed[address] = answer.reason if isinstance(answer, Refuse) else "no gossamer answer"
        self._settle(join)

    def failed(self, number: int, reason: str) -> None:
        """Handle the failure of an exchange's stream."""
        exchange = self._running.pop(number, None)
        if exchange is not None and exchange.join is not None:
            exchange.join.failed[exchange.address] = reason
            self._settle(exchange.join)

    def _differences(self, address: Address, answer: RowHashes, now: float) -> None:
        """Send the rows that the peer lacks, and request those that we lack."""
        self._verdicts.alive(answer.me, now)
        if not answer.hashes:
            return
        ours = self._table.hashes()
        theirs = dict.fromkeys(_unpacked(answer.hashes))
        wants = [one for one in theirs if one not in ours]
        gives = [name for one, name in ours.items() if one not in theirs and name != self._table.me.name]
        if not wants and not gives:
            return
        rows = [self._me(), *(self._table.row(name, now) for name in gives)]
        self._ask(_Exchange(address, "rows"), Sync("sync", rows, _packed(wants)))

    # ---- the parts --------------------------------------------------------------------------------------

    def _ask(self, exchange: _Exchange, question: Compare | Sync) -> None:
        self._number += 1
        self._running[self._number] = exchange
        self._outbox.stream(("sync", self._number), exchange.address, question, STREAM_TIMEOUT)

    def _settle(self, join: _Join | None) -> None:
        """Answer a join once all of its seeds have answered or failed."""
        if join is not None and all(exchange.join is not join for exchange in self._running.values()):
            self._outbox.answer(join.token, JoinResult(tuple(join.joined), join.failed))

    def _me(self) -> Record:
        return Record(self._table.me, ALIVE, 0.0)

    def _rows_for_joiner(self, now: float) -> list[Record]:
        if len(self._table) <= _SMALL:
            return self._table.records(now)
        if now - self._given_since >= 1.0:
            self._given_since, self._given = now, 0
        self._given += 1
        if self._given <= _WHOLE_A_SECOND:
            return self._table.records(now)
        return [self._me(), *(entry.record(now) for entry in self._table.sample(self._rng, _SAMPLE))]

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
        # The holder may be the joiner's earlier instance at another address: probe it, so that the next
        # attempt succeeds.
        self._verdicts.prober.probe_soon(entry, now)
        return "name-taken"

    def _merge(
        self, sync: Sync, by: str, now: float, *, repeats: int | None = None, told: bool = True
    ) -> None:
        settled_for = now - self._table.changed_at
        self._outbox.repeats = repeats
        try:
            news = {
                record.alive.name: record.age
                for record in sync.records
                if self._verdicts.merge(record, by, now)
            }
        finally:
            self._outbox.repeats = None
        if sync.kind != "join" and told:
            self._hints.surprised(news, settled_for=settled_for, now=now)

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


def _packed(hashes: Iterable[int]) -> bytes:
    return b"".join(one.to_bytes(_HASH, "big") for one in hashes)


def _unpacked(hashes: bytes) -> list[int]:
    """Unpack hashes; trailing bytes are ignored."""
    return [int.from_bytes(hashes[at : at + _HASH], "big") for at in range(0, len(hashes) - _HASH + 1, _HASH)]
