"""Verdicts: what a statement about a member does to what is known of it.

Rules:

1. Within one life (one id), the higher incarnation wins; at equal incarnations left beats down beats suspect
   beats alive. Only the life itself raises its incarnation, and it does so to refute.
2. A new life at the same address replaces the old one, whatever its name: one address holds one process.
   Incarnations start at the wall clock in milliseconds, so a restart is newer without asking; where a clock
   went back, the new life hears of the old one's number and outbids it.
3. A new life of a live name at *another* address is not believed. The holder is probed: if it is dead its
   name becomes free, if not there are two nodes with one name and the younger has to go.
4. A death is hearsay when it is told in an exchange of tables, or said by one that we held dead ourselves
   until a moment ago: a member that we hold alive is then probed, not accused. After a split heals, each side
   would otherwise accuse every member of the other, and bury its own on the word of the other.
5. A leave said by another than the member (force-leave) cannot be refuted: the member goes. A removal can:
   it is of members that are down, and one that lives comes back by saying so.

What is said of this node itself is ``refutation``'s.
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
from gossamer.gossip.swim.table import ALIVE, DOWN, LEFT, MAX_MEMBERS, REMOVED, STOPPED, SUSPECT, Entry
from gossamer.gossip.wire import Alive, Dead, Record, Suspect

if TYPE_CHECKING:
    from gossamer.gossip.swim.prober import Prober


class Verdicts(Part):
    """The only writer of the membership table."""

    def __init__(self, core: Core, own: Refutation) -> None:
        super().__init__(core)
        self._own = own
        self._witnesses = 0
        self.prober: Prober
        """Set by the owner: it looks at who is in doubt, new, or back."""

    # ---- statements -------------------------------------------------------------------------------------

    def alive(self, said: Alive, now: float) -> bool:
        """A member's statement about itself. True when it changed something."""
        if said.name == self._table.me.name:
            return self._own.claimed(said, ALIVE, said.name, now)
        entry = self._table.get(said.name)
        if entry is not None and entry.id == said.id:
            return self._restated(entry, said, now)
        if entry is not None:
            if said.incarnation <= entry.incarnation:
                return False
            if entry.state <= SUSPECT and entry.address != (said.host, said.port):
                self.prober.doubt(entry, now)
                return False
        elif len(self._table) >= MAX_MEMBERS:
            return False
        if not self._evict_zombie(said, now):
            return False
        if entry is not None and entry.state <= SUSPECT:
            entry.state = DOWN
            self._outbox.emit(MemberDown(entry.member(), "replaced"))
        fresh = Entry(said, ALIVE, now)
        self._table.put(fresh, now)
        self._outbox.broadcast(said.name, said)
        self._outbox.emit(MemberUp(fresh.member()))
        self._hints.sized(self._table.size, now)
        self.prober.appeared(fresh)
        return True

    def suspect(self, said: Suspect, now: float) -> bool:
        """Somebody got no answer from a member."""
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
            self.prober.doubt(entry, now)
            return False
        self._begin_suspicion(entry, said, now)
        return True

    def dead(self, said: Dead, now: float, *, reason: str = "reported") -> bool:
        """Somebody declares a member down, or gone for good."""
        if said.name == self._table.me.name:
            return self._own.accused(said, now)
        entry = self._table.get(said.name)
        if entry is None or entry.id != said.id or said.incarnation < entry.incarnation:
            return False
        if entry.state == LEFT or (entry.state == DOWN and not said.left):
            return False
        own = said.by == said.name
        if own:
            # It knows best.
            reason = STOPPED
        if said.removed:
            if entry.state != DOWN:
                # Whoever removed it did not see it; we do, or shall find out.
                self.prober.doubt(entry, now)
                return False
        elif entry.state == REMOVED and not said.left:
            return False
        elif entry.state <= SUSPECT and not said.left and not own and self._own.was_apart(said.by, now):
            self.prober.doubt(entry, now)
            return False
        if said.incarnation > entry.incarnation:
            # A statement of that incarnation that comes later must not raise the dead.
            newest = msgspec.structs.replace(entry.alive, incarnation=said.incarnation)
            self._table.restate(entry, newest, now)
        self._bury(entry, REMOVED if said.removed else LEFT if said.left else DOWN, reason, now)
        self._outbox.broadcast(said.name, said)
        return True

    def merge(self, record: Record, by: str, now: float) -> bool:
        """One row of a peer's table."""
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
            self.prober.doubt(entry, now)
        return False

    def replaced(self, entry: Entry, now: float) -> None:
        """Another process answers at the member's address."""
        if entry.state <= SUSPECT:
            said = Dead(entry.name, entry.id, entry.incarnation, self._table.me.name)
            self.dead(said, now, reason="replaced")

    def extend_suspicions(self, seconds: float) -> None:
        """This process stalled: what it did not read in time is no evidence."""
        for entry in self._table.suspected.values():
            if entry.suspicion is not None:
                entry.suspicion.extend(seconds)
                self._watch(entry)

    # ---- about others -----------------------------------------------------------------------------------

    def _restated(self, entry: Entry, said: Alive, now: float) -> bool:
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
        """Make room at an address; False when the one there is the newer."""
        holder = self._table.by_address((said.host, said.port))
        if holder is None or holder.id == said.id or holder.name == said.name:
            return True
        if said.incarnation < holder.incarnation:
            return False
        self.replaced(holder, now)
        return True

    def _begin_suspicion(self, entry: Entry, said: Suspect, now: float) -> None:
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
            self.prober.hearsay(entry, now)

    def _count_witnesses(self) -> None:
        """The suspected cannot confirm that others are dead; those that are left may be too few."""
        witnesses = self._table.size - 1 - len(self._table.suspected)
        before, self._witnesses = self._witnesses, witnesses
        needed = self._settings.suspicion_confirmations
        if min(before, witnesses) >= needed:
            # As nearly always: enough of them, before and now.
            return
        for entry in self._table.suspected.values():
            if entry.suspicion is not None:
                entry.suspicion.witnesses = witnesses
                self._watch(entry)

    def _watch(self, entry: Entry) -> None:
        suspicion = entry.suspicion
        if suspicion is not None:
            deadline = suspicion.deadline()
            self._timers.at(
                deadline - self._settings.probe_interval, partial(self._last_look, entry, suspicion)
            )
            self._timers.at(deadline, partial(self._judge, entry, suspicion))

    def _last_look(self, entry: Entry, suspicion: Suspicion, now: float) -> None:
        """No verdict on hearsay alone: a refutation that missed us rides on the answer to this probe."""
        due = suspicion.deadline() - now <= self._settings.probe_interval + 1e-6
        if entry.suspicion is suspicion and due:
            self.prober.doubt(entry, now)

    def _judge(self, entry: Entry, suspicion: Suspicion, now: float) -> None:
        if entry.suspicion is suspicion and suspicion.deadline() <= now:
            said = Dead(entry.name, entry.id, entry.incarnation, self._table.me.name)
            self.dead(said, now, reason="refused" if suspicion.hard else "unreachable")

    def _bury(self, entry: Entry, state: int, reason: str, now: float) -> None:
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
        """A down or gone member that we never met: keep it, so that it is tried and not resurrected."""
        # Written so that an age which is no number is refused as well.
        if not record.age < self._retention(record.state) or len(self._table) >= MAX_MEMBERS:
            return False
        entry = Entry(record.alive, record.state, now - record.age)
        entry.reason = "reported"
        self._table.put(entry, now)
        self._reap_later(entry)
        return True

    def _retention(self, state: int) -> float:
        return self._settings.left_retention if state >= LEFT else self._settings.down_retention

    def _reap_later(self, entry: Entry) -> None:
        when = entry.since + self._retention(entry.state)
        self._timers.at(when, partial(self._reap, entry, entry.since))

    def _reap(self, entry: Entry, since: float, now: float) -> None:
        if self._table.get(entry.name) is entry and entry.since == since and entry.state >= DOWN:
            self._table.remove(entry.name, now)
            self._outbox.forget(entry.name)
