"""Failure detection by probes: the order of targets, and escalation of unanswered probes.

Twice an interval a live member, from a shuffled round robin, is pinged, and four times more while no ack
arrives. Without one in time the probe escalates: helpers are asked to ping, a stream is opened, then once
more with other helpers. The member is suspected only if nothing of it was answered by the deadline.

Rules: 1. Any path to the target clears it: ack, helper's ack, stream.  2. A helper that cannot reach the
target sends a nack; helpers that do not answer at all raise our own health score instead, and are probed at
once.  3. Evidence from data links starts a probe at once, with all steps together; it never suffices without
one. 4. Members that are down are tried for ever, one an interval, now and then by stream, and the packet says
that they are considered down.  5. An identity mismatch is believed as the answer to a ping of ours, from the
address of its target, and of an instance that is no member elsewhere: whoever forwards packets between nodes
can make one node's answer look like another's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from gossamer.gossip.member import LinkEvidence
from gossamer.gossip.swim.core import Core, Part
from gossamer.gossip.swim.hints import Path
from gossamer.gossip.swim.table import ALIVE, SUSPECT, MemberEntry, MemberTable
from gossamer.gossip.swim.verdicts import Verdicts
from gossamer.gossip.wire import Ack, Mismatch, Nack, Ping, PingRequest, Suspect
from gossamer.network import Address

_MAX_RELAYS = 1024
_INSIST = (0.2, 0.4, 0.6, 0.8)
"""Parts of the probe timeout after which a ping without an ack is repeated. After a lost packet the rest of a
probe must not coincide with a stall of its target: at 5 % loss and a stall of 0.3 s each second, one ping
here made a suspicion a minute, three made one an hour."""
_STREAM_EVERY = 4
"""Every so many attempts a down member is tried by stream, for networks that block UDP."""


class RoundRobin:
    """Every live member once a round, reshuffled each round; newcomers at a random place."""

    def __init__(self, table: MemberTable, rng: random.Random) -> None:
        self._table = table
        self._rng = rng
        self._order: list[str] = []
        self._at = 0

    def add(self, name: str) -> None:
        """Insert a new member at a random place in the rest of this round."""
        self._order.insert(self._rng.randint(self._at, len(self._order)), name)

    def next(self) -> MemberEntry | None:
        """Return the next live member, or None."""
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
    entry: MemberEntry
    name: str
    id: str
    sequence: int
    begun: float
    deadline: float
    asked: list[MemberEntry] = field(default_factory=list)
    """Helpers whose nacks count."""
    nacks: int = 0
    refused: bool = False


class _Relay(NamedTuple):
    """Ping for a peer."""

    target: str
    source: Address
    asker: str
    sequence: int
    """The asker's."""


class Prober(Part):
    """Probes of this node and those for others; ``exchange`` compares tables."""

    def __init__(self, core: Core, verdicts: Verdicts, exchange: Callable[[Address, float], None]) -> None:
        super().__init__(core)
        self._verdicts = verdicts
        self._exchange = exchange
        self._order = RoundRobin(core.table, core.rng)
        self._probes: dict[int, _Probe] = {}
        self._probing: dict[str, int] = {}
        self._relays: dict[int, _Relay] = {}
        self._reconnects = 0
        self.timed: Callable[[float], None] = lambda _seconds: None
        """Set by the owner: called with the seconds of each direct answer."""

    def start(self, now: float) -> None:
        """Start the timers, at random phases."""
        settings = self._settings
        self._timers.at(now + self._rng.uniform(0, settings.probe_interval), self._turn)
        self._timers.at(now + self._rng.uniform(0, settings.reconnect_interval), self._reconnect)

    def reset(self) -> None:
        """Drop every probe under way."""
        self._probes.clear()
        self._probing.clear()
        self._relays.clear()

    def appeared(self, entry: MemberEntry) -> None:
        """Add a new member to the rounds."""
        self._order.add(entry.name)

    def returned(self, entry: MemberEntry, now: float) -> None:
        """Add a member that was down and is back, and compare tables: it may know unknown members."""
        self.appeared(entry)
        self._exchange(entry.address, now)

    # ---- our own probes ---------------------------------------------------------------------------------

    def probe_soon(self, entry: MemberEntry, now: float) -> None:
        """Probe a member soon."""
        if entry.name not in self._probing and entry.state <= SUSPECT:
            self._begin(entry, now, window=self._settings.probe_interval, at_once=True)

    def on_indirect_report(self, entry: MemberEntry, now: float) -> None:
        """Probe a member that another suspects, at a probability that bounds the probes in the cluster."""
        wanted = 4 * self._settings.suspicion_confirmations
        if self._rng.random() * self._table.size < wanted:
            self.probe_soon(entry, now)

    def evidence(self, evidence: LinkEvidence, now: float) -> None:
        """Handle the state of a data link: it broke, or works."""
        entry = self._table.get(evidence.name)
        if entry is None or entry.state > SUSPECT:
            return
        if evidence.kind == "ok":
            sequence = self._probing.get(entry.name)
            if sequence is not None:
                self._succeed(self._probes[sequence], now, "stream")
            return
        # All links to a dead node break at the same instant: larger clusters spread their probes.
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

    def _begin(self, entry: MemberEntry, now: float, *, window: float, at_once: bool = False) -> None:
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
        # The target's host refused: our network works, and helpers had no time to nack.
        if not probe.refused:
            helpers = len(probe.asked)
            if probe.nacks < helpers:
                # Silent helpers are down too, or we are cut off. Probe them now, with the health score of
                # before, and not one by one, each later than the last: so the smaller side detects a split.
                for helper in probe.asked:
                    self.probe_soon(helper, now)
            self._awareness.apply(max(0, helpers - probe.nacks) if helpers else 1)
            self._hints.unanswered(probe.name, helpers=helpers, nacks=probe.nacks, now=now)
        entry = self._table.get(probe.name)
        if entry is not None and entry.id == probe.id:
            accusation = Suspect(entry.name, entry.id, entry.incarnation, self._table.me.name, probe.refused)
            self._verdicts.suspect(accusation, now)

    def acknowledged(self, sequence: int, sender: str, now: float) -> bool:
        """Handle an ack; return False if it answers no probe of ours."""
        relay = self._relays.get(sequence)
        if relay is not None:
            if sender == relay.target:
                del self._relays[sequence]
                self._outbox.packet(relay.source, Ack(relay.sequence), to=relay.asker)
            return True
        probe = self._probes.get(sequence)
        if probe is None:
            return False
        self._succeed(probe, now, "direct" if sender == probe.id else "helper")
        return True

    def nacked(self, sequence: int) -> None:
        """Record that a helper is up, and got no answer either."""
        probe = self._probes.get(sequence)
        if probe is not None and probe.nacks < len(probe.asked):
            probe.nacks += 1

    def on_identity_mismatch(self, sequence: int, sender: str, source: Address, now: float) -> None:
        """Handle an identity mismatch: another process answered at the target's address."""
        probe = self._probes.get(sequence)
        known = self._table.by_id(sender)
        elsewhere = known is not None and known.address != source
        if probe is not None and source == probe.entry.address and sender != probe.id and not elsewhere:
            self._drop(probe)
            entry = self._table.get(probe.name)
            if entry is not None and entry.id == probe.id:
                self._verdicts.replaced(entry, now)

    def stream_answered(self, sequence: int, sender: str, now: float) -> None:
        """Handle an ack on a probe's stream."""
        probe = self._probes.get(sequence)
        if probe is not None and sender == probe.id:
            self._succeed(probe, now, "stream")

    def stream_failed(self, sequence: int, reason: str, now: float) -> None:
        """Handle the failure of a probe's stream; a refusal shortens the wait."""
        probe = self._probes.get(sequence)
        if probe is not None and reason == "refused":
            probe.refused = True
            soon = now + self._settings.probe_timeout / 2
            if soon < probe.deadline:
                probe.deadline = soon
                self._timers.at(soon, partial(self._expire, sequence))

    def extend(self, seconds: float) -> None:
        """Extend the deadlines after this process stalled, so that answers in its socket are read."""
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

    def pinged(self, ping: Ping, sender: str, source: Address, entry: MemberEntry | None) -> None:
        """Answer a ping."""
        mine = ping.target == self._table.me.id
        answer = Ack(ping.sequence) if mine else Mismatch(ping.sequence)
        self._outbox.packet(source, answer, entry=entry, to=sender)

    def requested(self, request: PingRequest, sender: str, source: Address, now: float) -> None:
        """Ping a third member for a peer."""
        if len(self._relays) >= _MAX_RELAYS:
            return
        sequence = self._rng.getrandbits(32)
        target = (request.host, request.port)
        timeout = self._settings.probe_timeout
        self._relays[sequence] = _Relay(request.target, source, sender, request.sequence)
        ping, nack = Ping(sequence, request.target), Nack(request.sequence)
        self._outbox.packet(target, ping)
        again = partial(self._while_relaying, sequence, target, ping, "")
        self._timers.at(now + timeout * 0.3, again)
        self._timers.at(now + timeout * 0.6, partial(self._while_relaying, sequence, source, nack, sender))
        self._timers.at(now + timeout * 4, lambda _now: self._relays.pop(sequence, None))

    def _while_relaying(
        self, sequence: int, address: Address, message: Ping | Nack, to: str, _now: float
    ) -> None:
        if sequence in self._relays:
            self._outbox.packet(address, message, to=to)

    # ---- down members -----------------------------------------------------------------------------------

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
