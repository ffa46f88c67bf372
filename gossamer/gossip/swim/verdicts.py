"""Verdicts: application of statements about members to the table.

Rules:

1. Within one instance (one id), the higher incarnation wins; at equal incarnations left beats down beats
   suspect beats alive. Only the instance itself raises its incarnation, to refute.
2. A new instance at the same address replaces the old one, whatever its name: one address has one process.
   Incarnations start at the wall clock in milliseconds, so a restart is newer by itself; if a clock went
   back, the new instance receives the old one's number and overrides it.
3. A new instance of a live name at *another* address is not accepted. The holder is probed: if it is dead its
   name becomes free, if not there are two nodes with one name and the younger must stop.
4. A death is an indirect report if it comes in an exchange of tables, or from a member that we considered
   down until just now: a member that is alive in our view is then probed, not accused. Otherwise, after a
   split heals, each side would accuse every member of the other, and mark its own down on the other's report.
5. A leave issued by another node (force-leave) cannot be refuted. A removal can: it is of members that are
   down, and a live one comes back by refuting.

Statements about this node itself are handled by ``refutation``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from gossamer.gossip.member import (
    MemberAlive,
    MemberDown,
    MemberLeft,
    MemberSuspect,
    MemberUp,
    MemberUpdated,
)
from gossamer.gossip.swim.core import Core, Part
from gossamer.gossip.swim.lifeguard import Suspicion, suspicion_bounds
from gossamer.gossip.swim.refutation import Refutation
from gossamer.gossip.swim.table import ALIVE, DOWN, LEFT, MAX_MEMBERS, REMOVED, STOPPED, SUSPECT, MemberEntry
from gossamer.gossip.wire import Alive, Dead, Record, Suspect

if TYPE_CHECKING:
    from gossamer.gossip.swim.prober import Prober


class Verdicts(Part):
    """Only writer of the membership table."""

    def __init__(self, core: Core, own: Refutation) -> None:
        super().__init__(core)
        self._own = own
        self._witnesses = 0
        self.prober: Prober
        """Set by the owner: it probes members that are in doubt, new, or back."""

    # ---- statements -------------------------------------------------------------------------------------

    def alive(self, said: Alive, now: float) -> bool:
        """Apply a member's statement about itself; return True if it changed something."""
        if said.name == self._table.me.name:
            return self._own.claimed(said, ALIVE, said.name, now)
        entry = self._table.get(said.name)
        if entry is not None and entry.id == said.id:
            return self._restated(entry, said, now)
        if entry is not None:
            if said.incarnation <= entry.incarnation:
                return False
            if entry.state <= SUSPECT and entry.address != (said.host, said.port):
                self.prober.probe_soon(entry, now)
                return False
        elif len(self._table) >= MAX_MEMBERS:
            return False
        if not self._evict_zombie(said, now):
            return False
        if entry is not None and entry.state <= SUSPECT:
            entry.state = DOWN
            self._outbox.emit(MemberDown(entry.member(), "replaced"))
        fresh = MemberEntry(said, ALIVE, now)
        self._table.put(fresh, now)
        self._outbox.broadcast(said.name, said)
        self._outbox.emit(MemberUp(fresh.member()))
        self._hints.sized(self._table.size, now)
        self.prober.appeared(fresh)
        return True

    def suspect(self, said: Suspect, now: float) -> bool:
        """Apply a suspicion of a member."""
        if said.name == self._table.me.name:
            return self._own.accused(said, now)
        entry = self._table.get(said.name)
        if entry is None or entry.id != said.id or said.incarnation < entry.incarnation:
            return False
        if entry.state == SUSPECT and entry.suspicion is not None:
            if not entry.suspicion.confirm(said.by, hard=said.hard):
                return False
            self._outbox.broadcast(said.name, said)
            self._watch(entry)
            return True
        if entry.state != ALIVE:
            return False
        if self._own.was_apart(said.by, now):
            self.prober.probe_soon(entry, now)
            return False
        self._begin_suspicion(entry, said, now)
        return True

    def dead(self, said: Dead, now: float, *, reason: str = "reported") -> bool:
        """Apply a report that a member is down, or has left permanently."""
        if said.name == self._table.me.name:
            return self._own.accused(said, now)
        entry = self._table.get(said.name)
        if entry is None or entry.id != said.id or said.incarnation < entry.incarnation:
            return False
        if entry.state == LEFT or (entry.state == DOWN and not said.left):
            return False
        own = said.by == said.name
        if own:
            # Its own statement.
            reason = STOPPED
        if said.removed:
            if entry.state != DOWN:
                # It was removed by a node that does not see it; probe whether we do.
                self.prober.probe_soon(entry, now)
                return False
        elif entry.state == REMOVED and not said.left:
            return False
        elif entry.state <= SUSPECT and not said.left and not own and self._own.was_apart(said.by, now):
            self.prober.probe_soon(entry, now)
            return False
        if said.incarnation > entry.incarnation:
            # A later statement of that incarnation must not revive it.
            newest = msgspec.structs.replace(entry.alive, incarnation=said.incarnation)
            self._table.restate(entry, newest, now)
        self._bury(entry, REMOVED if said.removed else LEFT if said.left else DOWN, reason, now)
        self._outbox.broadcast(said.name, said)
        return True

    def merge(self, record: Record, by: str, now: float) -> bool:
        """Merge one row of a peer's table."""
        said = record.alive
        if said.name == self._table.me.name:
            return self._own.claimed(said, record.state, by, now)
        if record.state == ALIVE:
            return self.alive(said, now)
        if record.state == SUSPECT:
            changed = self.alive(said, now)
            return self.suspect(Suspect(said.name, said.id, said.incarnation, by), now) or changed
        entry = self._table.get(said.name)
        if entry is None:
            return self._remember(record, now)
        if entry.id != said.id or said.incarnation < entry.incarnation:
            return False
        if record.state >= LEFT:
            removed = record.state == REMOVED
            return self.dead(Dead(said.name, said.id, said.incarnation, by, True, removed), now)
        if entry.state <= SUSPECT:
            self.prober.probe_soon(entry, now)
        return False

    def replaced(self, entry: MemberEntry, now: float) -> None:
        """Mark a member down because another process answers at its address."""
        if entry.state <= SUSPECT:
            said = Dead(entry.name, entry.id, entry.incarnation, self._table.me.name)
            self.dead(said, now, reason="replaced")

    def extend_suspicions(self, seconds: float) -> None:
        """Extend all suspicions after this process stalled: unread answers are no evidence."""
        for entry in self._table.suspected.values():
            if entry.suspicion is not None:
                entry.suspicion.extend(seconds)
                self._watch(entry)

    # ---- about others -----------------------------------------------------------------------------------

    def _restated(self, entry: MemberEntry, said: Alive, now: float) -> bool:
        if said.incarnation <= entry.incarnation:
            return False
        before, state = entry.alive, entry.state
        moved = (before.host, before.port) != (said.host, said.port)
        if moved and not self._evict_zombie(said, now):
            return False
        self._table.restate(entry, said, now)
        entry.suspicion = None
        if state != ALIVE:
            entry.state, entry.since = ALIVE, now
        self._table.put(entry, now)
        self._count_witnesses()
        self._outbox.broadcast(said.name, said)
        if state >= DOWN:
            entry.returned = now
            self._outbox.emit(MemberUp(entry.member()))
            self._hints.sized(self._table.size, now)
            self.prober.returned(entry, now)
        elif state == SUSPECT:
            self._outbox.emit(MemberAlive(entry.member()))
        if state <= SUSPECT and (moved or before.metadata != said.metadata):
            self._outbox.emit(MemberUpdated(entry.member()))
        return True

    def _evict_zombie(self, said: Alive, now: float) -> bool:
        """Remove an older instance from an address; return False if the one there is newer."""
        holder = self._table.by_address((said.host, said.port))
        if holder is None or holder.id == said.id or holder.name == said.name:
            return True
        if said.incarnation < holder.incarnation:
            return False
        self.replaced(holder, now)
        return True

    def _begin_suspicion(self, entry: MemberEntry, said: Suspect, now: float) -> None:
        settings = self._settings
        size = self._table.size
        minimum, maximum = suspicion_bounds(
            size,
            interval=settings.probe_interval,
            mult=settings.suspicion_mult,
            max_mult=settings.suspicion_max_mult,
            floor=settings.suspicion_floor,
        )
        # Neither the accused nor the accuser can confirm.
        needed = min(settings.suspicion_confirmations, max(0, size - 2))
        entry.suspicion = Suspicion(
            said.by,
            started=now,
            minimum=minimum,
            maximum=maximum,
            needed=needed,
            few=needed < settings.suspicion_confirmations,
            refused=settings.suspicion_refused,
            hard=said.hard,
        )
        entry.suspicion.witnesses = self._witnesses
        entry.state, entry.since = SUSPECT, now
        self._table.put(entry, now)
        self._count_witnesses()
        self._outbox.emit(MemberSuspect(entry.member()))
        self._hints.suspected(entry.name, size=size, score=self._awareness.score, now=now)
        self._outbox.broadcast(said.name, said)
        self._outbox.packet(entry.address, entry=entry)
        self._watch(entry)
        if said.by != self._table.me.name:
            self.prober.on_indirect_report(entry, now)

    def _count_witnesses(self) -> None:
        """Recount possible confirmers: suspected members cannot confirm, and the rest may be too few."""
        witnesses = self._table.size - 1 - len(self._table.suspected)
        before, self._witnesses = self._witnesses, witnesses
        needed = self._settings.suspicion_confirmations
        if min(before, witnesses) >= needed:
            # The usual case: enough of them, before and now.
            return
        for entry in self._table.suspected.values():
            if entry.suspicion is not None:
                entry.suspicion.witnesses = witnesses
                self._watch(entry)

    def _watch(self, entry: MemberEntry) -> None:
        suspicion = entry.suspicion
        if suspicion is not None:
            deadline = suspicion.deadline()
            self._timers.at(
                deadline - self._settings.probe_interval, partial(self._last_look, entry, suspicion)
            )
            self._timers.at(deadline, partial(self._judge, entry, suspicion))

    def _last_look(self, entry: MemberEntry, suspicion: Suspicion, now: float) -> None:
        """Probe before the verdict: the answer carries any refutation that we missed."""
        due = suspicion.deadline() - now <= self._settings.probe_interval + 1e-6
        if entry.suspicion is suspicion and due:
            self.prober.probe_soon(entry, now)

    def _judge(self, entry: MemberEntry, suspicion: Suspicion, now: float) -> None:
        if entry.suspicion is suspicion and suspicion.deadline() <= now:
            said = Dead(entry.name, entry.id, entry.incarnation, self._table.me.name)
            self.dead(said, now, reason="refused" if suspicion.hard else "unreachable")

    def _bury(self, entry: MemberEntry, state: int, reason: str, now: float) -> None:
        was = entry.state
        entry.state, entry.since, entry.reason, entry.suspicion = state, now, reason, None
        self._table.put(entry, now)
        self._count_witnesses()
        if state >= LEFT or reason == STOPPED:
            self._hints.left(now, live=was <= SUSPECT)
        if state >= LEFT:
            self._outbox.emit(MemberLeft(entry.member()))
        elif was <= SUSPECT:
            self._outbox.emit(MemberDown(entry.member(), reason))
        self._hints.sized(self._table.size, now)
        self._reap_later(entry)

    def _remember(self, record: Record, now: float) -> bool:
        """Keep a down or left member that was unknown here, so that it is tried and not revived."""
        # Written so that an age of NaN is refused too.
        if not record.age < self._retention(record.state) or len(self._table) >= MAX_MEMBERS:
            return False
        entry = MemberEntry(record.alive, record.state, now - record.age)
        entry.reason = "reported"
        self._table.put(entry, now)
        self._reap_later(entry)
        return True

    def _retention(self, state: int) -> float:
        return self._settings.left_retention if state >= LEFT else self._settings.down_retention

    def _reap_later(self, entry: MemberEntry) -> None:
        when = entry.since + self._retention(entry.state)
        self._timers.at(when, partial(self._reap, entry, entry.since))

    def _reap(self, entry: MemberEntry, since: float, now: float) -> None:
        if self._table.get(entry.name) is entry and entry.since == since and entry.state >= DOWN:
            self._table.remove(entry.name, now)
            self._outbox.forget(entry.name)
