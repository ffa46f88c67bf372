"""Probing: who is asked next, and what counts as no answer.

Twice an interval a live member, from a shuffled round robin, is pinged, and four times more while no ack
comes. Without one in time the probe escalates: helpers are asked to ping, a stream is opened, then once more
with other helpers. Only when all of it stayed silent until the deadline is the member suspected.

Rules: 1. Any way to the target clears it: ack, helper's ack, stream.  2. A helper that cannot reach the
target says so (nack); helpers that say nothing at all raise our own health score, not the target's guilt,
and are probed at once.  3. Evidence from data links starts a probe at once, all steps together; it never
convicts without one.  4. Members that are down are tried for ever, one an interval, now and then by stream,
and told that they are thought dead.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from gossamer.gossip.member import LinkEvidence
from gossamer.gossip.swim.core import Core, Part
from gossamer.gossip.swim.hints import Path
from gossamer.gossip.swim.table import ALIVE, SUSPECT, Entry, MemberTable
from gossamer.gossip.swim.verdicts import Verdicts
from gossamer.gossip.wire import Ack, Nack, Ping, PingRequest, Stranger, Suspect
from gossamer.network import Address

_MAX_RELAYS = 1024
_INSIST = (0.2, 0.4, 0.6, 0.8)
"""Parts of the probe timeout after which a ping without an ack is repeated. A lost packet must not leave all
the rest of a probe to the moment in which its target stalls: at 5 % loss and a stall of 0.3 s each second,
one ping here made a suspicion a minute, three made one an hour."""
_STREAM_EVERY = 4
"""Each so many tries of down members goes by stream, for networks that lost UDP."""


class RoundRobin:
    """Every live member once a round, in an order drawn anew each round; newcomers anywhere in it."""

    def __init__(self, table: MemberTable, rng: random.Random) -> None:
        self._table = table
        self._rng = rng
        self._order: list[str] = []
        self._at = 0

    def add(self, name: str) -> None:
        """A new member takes a random place in the rest of this round."""
        self._order.insert(self._rng.randint(self._at, len(self._order)), name)

    def next(self) -> Entry | None:
        """Whose turn it is; None where nobody is live."""
        for _ in range(2):
            while self._at < len(self._order):
                entry = self._table.get(self._order[self._at])
                self._at += 1
                if entry is not None and entry.state <= SUSPECT:
                    return entry
            self._order = list(self._table.live)
            self._rng.shuffle(self._order)
            self._at = 0
        return None


@dataclass(slots=True, eq=False)
class _Probe:
    entry: Entry
    name: str
    id: str
    sequence: int
    begun: float
    deadline: float
    asked: list[Entry] = field(default_factory=list)
    """Helpers whose nacks count."""
    nacks: int = 0
    refused: bool = False


class Prober(Part):
    """Runs the probes of this node and those it does for others; ``exchange`` compares tables."""

    def __init__(self, core: Core, verdicts: Verdicts, exchange: Callable[[Address, float], None]) -> None:
        super().__init__(core)
        self._verdicts = verdicts
        self._exchange = exchange
        self._order = RoundRobin(core.table, core.rng)
        self._probes: dict[int, _Probe] = {}
        self._probing: dict[str, int] = {}
        self._relays: dict[int, tuple[Address, int]] = {}
        self._reconnects = 0
        self.timed: Callable[[float], None] = lambda _seconds: None
        """Set by the owner: told how long each answer took that came straight from the member."""

    def start(self, now: float) -> None:
        """Begin, at a phase of our own."""
        settings = self._settings
        self._timers.at(now + self._rng.uniform(0, settings.probe_interval), self._turn)
        self._timers.at(now + self._rng.uniform(0, settings.reconnect_interval), self._reconnect)

    def reset(self) -> None:
        """Forget every probe under way."""
        self._probes.clear()
        self._probing.clear()
        self._relays.clear()

    def appeared(self, entry: Entry) -> None:
        """A member is new."""
        self._order.add(entry.name)

    def returned(self, entry: Entry, now: float) -> None:
        """A member is back from the dead: it may know others that this node does not."""
        self.appeared(entry)
        self._exchange(entry.address, now)

    # ---- our own probes ---------------------------------------------------------------------------------

    def doubt(self, entry: Entry, now: float) -> None:
        """Find out soon whether a member is there."""
        if entry.name not in self._probing and entry.state <= SUSPECT:
            self._begin(entry, now, window=self._settings.probe_interval, at_once=True)

    def hearsay(self, entry: Entry, now: float) -> None:
        """Another member suspects this one: perhaps look for ourselves."""
        wanted = 4 * self._settings.suspicion_confirmations
        if self._rng.random() * self._table.size < wanted:
            self.doubt(entry, now)

    def evidence(self, evidence: LinkEvidence, now: float) -> None:
        """A data link to a member broke, or works."""
        entry = self._table.get(evidence.name)
        if entry is None or entry.state > SUSPECT:
            return
        if evidence.kind == "ok":
            sequence = self._probing.get(entry.name)
            if sequence is not None:
                self._succeed(self._probes[sequence], now, "stream")
            return
        # Everybody's link to a dead node breaks in the same instant: larger clusters spread their probes.
        spread = 0.05 if self._table.size <= 32 else 0.5
        self._timers.at(now + self._rng.uniform(0, spread), partial(self._follow_up, entry.name, entry.id))

    def _follow_up(self, name: str, member_id: str, now: float) -> None:
        entry = self._table.get(name)
        if entry is None or entry.id != member_id or entry.state > SUSPECT:
            return
        if entry.suspicion is not None and entry.suspicion.hard:
            return
        self._drop(self._probes.get(self._probing.get(name, -1)))
        self._begin(entry, now, window=self._settings.probe_timeout, at_once=True)

    def _turn(self, now: float) -> None:
        settings = self._settings
        period = settings.probe_interval / settings.probes_per_interval
        self._timers.at(now + self._awareness.stretch(period), self._turn)
        entry = self._order.next()
        if entry is not None and entry.name not in self._probing:
            self._begin(entry, now, window=settings.probe_interval)

    def _begin(self, entry: Entry, now: float, *, window: float, at_once: bool = False) -> None:
        sequence = self._rng.getrandbits(32)
        probe = _Probe(entry, entry.name, entry.id, sequence, now, now + self._awareness.stretch(window))
        self._probes[sequence] = probe
        self._probing[entry.name] = sequence
        self._timers.at(probe.deadline, partial(self._expire, sequence))
        if at_once:
            self._escalate(sequence, 1, now)
        else:
            self._outbox.packet(entry.address, Ping(sequence, entry.id), entry=entry)
            timeout = self._settings.probe_timeout
            for part in _INSIST:
                self._timers.at(now + part * timeout, partial(self._insist, sequence))
            self._timers.at(now + timeout, partial(self._escalate, sequence, 1))

    def _insist(self, sequence: int, _now: float) -> None:
        probe = self._probes.get(sequence)
        if probe is not None:
            self._outbox.packet(probe.entry.address, Ping(sequence, probe.id), entry=probe.entry, again=True)

    def _escalate(self, sequence: int, stage: int, now: float) -> None:
        probe = self._probes.get(sequence)
        if probe is None:
            return
        settings = self._settings
        entry = probe.entry
        self._outbox.packet(entry.address, Ping(sequence, probe.id), entry=entry, again=stage > 1)
        if stage <= 2:
            request = PingRequest(sequence, probe.id, *entry.address)
            for helper in self._table.sample(self._rng, settings.indirect_checks, exclude=probe.name):
                if stage == 1 and helper.state == ALIVE:
                    probe.asked.append(helper)
                self._outbox.packet(helper.address, request, entry=helper)
        if stage == 1:
            timeout = max(settings.probe_timeout, probe.deadline - now)
            self._outbox.stream(("probe", sequence), entry.address, Ping(sequence, probe.id), timeout)
        again = now + settings.probe_timeout / 2
        if again < probe.deadline:
            self._timers.at(again, partial(self._escalate, sequence, stage + 1))

    def _expire(self, sequence: int, now: float) -> None:
        probe = self._probes.get(sequence)
        if probe is None or now < probe.deadline:
            return
        self._drop(probe)
        # A refusal came from the target's host: our network works, and helpers had no time to nack.
        if not probe.refused:
            helpers = len(probe.asked)
            if probe.nacks < helpers:
                # Helpers that say nothing are gone too, or we are: found out now, at the health of before,
                # and not one by one, each later than the last. The smaller side of a split learns of it so.
                for helper in probe.asked:
                    self.doubt(helper, now)
            self._awareness.apply(max(0, helpers - probe.nacks) if helpers else 1)
            self._hints.unanswered(probe.name, helpers=helpers, nacks=probe.nacks, now=now)
        entry = self._table.get(probe.name)
        if entry is not None and entry.id == probe.id:
            accusation = Suspect(entry.name, entry.id, entry.incarnation, self._table.me.name, probe.refused)
            self._verdicts.suspect(accusation, now)

    def acknowledged(self, sequence: int, sender: str, now: float) -> bool:
        """An ack came in. False when it answers nothing of ours."""
        relay = self._relays.pop(sequence, None)
        if relay is not None:
            address, original = relay
            self._outbox.packet(address, Ack(original))
            return True
        probe = self._probes.get(sequence)
        if probe is None:
            return False
        self._succeed(probe, now, "direct" if sender == probe.id else "helper")
        return True

    def nacked(self, sequence: int) -> None:
        """A helper works, and did not get an answer either."""
        probe = self._probes.get(sequence)
        if probe is not None and probe.nacks < len(probe.asked):
            probe.nacks += 1

    def estranged(self, sequence: int, source: Address, now: float) -> None:
        """Another process answered at the target's address."""
        probe = self._probes.get(sequence)
        if probe is not None and source == probe.entry.address:
            self._drop(probe)
            entry = self._table.get(probe.name)
            if entry is not None and entry.id == probe.id:
                self._verdicts.replaced(entry, now)

    def stream_answered(self, sequence: int, sender: str, now: float) -> None:
        """The stream of a probe carried an ack."""
        probe = self._probes.get(sequence)
        if probe is not None and sender == probe.id:
            self._succeed(probe, now, "stream")

    def stream_failed(self, sequence: int, reason: str, now: float) -> None:
        """The stream of a probe could not be opened. Refusal ends the wait early."""
        probe = self._probes.get(sequence)
        if probe is not None and reason == "refused":
            probe.refused = True
            soon = now + self._settings.probe_timeout / 2
            if soon < probe.deadline:
                probe.deadline = soon
                self._timers.at(soon, partial(self._expire, sequence))

    def extend(self, seconds: float) -> None:
        """This process stalled: give the answers that wait in its socket time to be read."""
        for sequence, probe in self._probes.items():
            probe.deadline += seconds
            self._timers.at(probe.deadline, partial(self._expire, sequence))

    def _succeed(self, probe: _Probe, now: float, path: Path) -> None:
        self._drop(probe)
        if path == "direct":
            self.timed(now - probe.begun)
        self._awareness.apply(-1)
        self._hints.answered(probe.name, path, now)

    def _drop(self, probe: _Probe | None) -> None:
        if probe is not None:
            self._probes.pop(probe.sequence, None)
            if self._probing.get(probe.name) == probe.sequence:
                del self._probing[probe.name]

    # ---- for others -------------------------------------------------------------------------------------

    def pinged(self, ping: Ping, source: Address, entry: Entry | None) -> None:
        """Somebody asks whether this node lives."""
        if ping.target == self._table.me.id:
            self._outbox.packet(source, Ack(ping.sequence), entry=entry)
        else:
            self._outbox.packet(source, Stranger(ping.sequence), entry=entry)

    def requested(self, request: PingRequest, source: Address, now: float) -> None:
        """Somebody asks this node to ping a third."""
        if len(self._relays) >= _MAX_RELAYS:
            return
        sequence = self._rng.getrandbits(32)
        target = (request.host, request.port)
        timeout = self._settings.probe_timeout
        self._relays[sequence] = (source, request.sequence)
        self._outbox.packet(target, Ping(sequence, request.target))
        again = partial(self._while_relaying, sequence, target, Ping(sequence, request.target))
        self._timers.at(now + timeout * 0.3, again)
        self._timers.at(
            now + timeout * 0.6, partial(self._while_relaying, sequence, source, Nack(request.sequence))
        )
        self._timers.at(now + timeout * 4, lambda _now: self._relays.pop(sequence, None))

    def _while_relaying(self, sequence: int, address: Address, message: Ping | Nack, _now: float) -> None:
        if sequence in self._relays:
            self._outbox.packet(address, message)

    # ---- the dead ---------------------------------------------------------------------------------------

    def _reconnect(self, now: float) -> None:
        self._timers.at(now + self._settings.reconnect_interval, self._reconnect)
        entry = self._table.any_down(self._rng)
        if entry is None:
            return
        self._reconnects += 1
        if self._reconnects % _STREAM_EVERY == 0:
            self._exchange(entry.address, now)
        else:
            self._outbox.packet(entry.address, Ping(self._rng.getrandbits(32), entry.id), entry=entry)
