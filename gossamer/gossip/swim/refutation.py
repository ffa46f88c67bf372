"""Statements about this node: refutation of accusations, and conflicts over its name.

SWIM's refutation by a higher incarnation: only the node raises its own incarnation, to override statements of
others about it. While it is leaving it refutes nothing, since it then receives its own leave, repeated. A
leave that another node issued (force-leave) cannot be refuted.

Another instance that claims this node's name at another address is a *claimant*. It is pinged: if it is
silent, it was an earlier instance or a false claim, and this node overrides it. If it answers, the one that
started first keeps the name; of two that started at the same instant the smaller id. Both decide alike, so
exactly one stops. One claimant at a time; gossip repeats the next claim.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from swimprotocol.status import Status

from gossamer.gossip.member import MAX_NUMBER, Member
from gossamer.gossip.swim.core import Core, Part
from gossamer.gossip.swim.table import ALIVE, DOWN, LEFT, SUSPECT
from gossamer.gossip.wire import Alive, Dead, Ping, Suspect

_RETURN_MEMORY = 60.0
_RIVAL_TIMEOUT = 2.0
_PINGS = (0.0, 0.3, 0.6)


class Refutation(Part):
    """Statements under this node's own name.

    ``forced_out`` is called with the node that removed this one; ``give_way`` with the owner of the name.
    """

    def __init__(
        self,
        core: Core,
        *,
        forced_out: Callable[[str, float], None],
        give_way: Callable[[Member, float], None],
    ) -> None:
        super().__init__(core)
        self.leaving = False
        """Set by the owner: this node has announced its leave."""
        self._forced_out = forced_out
        self._give_way = give_way
        self._claimant: tuple[int, Alive] | None = None

    def claimed(self, said: Alive, state: int, by: str, now: float) -> bool:
        """Handle a claim to this node's name, in ``state``; return True if it changed something."""
        me = self._table.me
        if said.id == me.id:
            if self.leaving:
                return False
            if state == LEFT and said.incarnation >= me.incarnation:
                self._forced_out(by, now)
                return True
            if said.incarnation > me.incarnation or (state != ALIVE and said.incarnation == me.incarnation):
                if state == DOWN:
                    self._note_accuser(by, now)
                self.outbid(said.incarnation)
                return True
            return False
        if state <= SUSPECT and (said.host, said.port) != (me.host, me.port):
            self._meet(said, now)
            return False
        if said.incarnation >= me.incarnation:
            self.outbid(said.incarnation)
            return True
        return False

    def accused(self, said: Suspect | Dead, now: float) -> bool:
        """Refute a suspicion or death of this node; return True if it changed something."""
        me = self._table.me
        if said.id != me.id or said.by == me.name or self.leaving:
            return False
        if said.incarnation < me.incarnation:
            # Refuted before, but the accuser has not received it: repeat it.
            self._outbox.broadcast(me.name, me)
            return False
        if isinstance(said, Dead) and said.left and not said.removed:
            self._forced_out(said.by, now)
            return True
        self._awareness.apply(1)
        if isinstance(said, Dead):
            self._note_accuser(said.by, now)
        self.outbid(said.incarnation)
        return True

    def outbid(self, incarnation: int) -> None:
        """Raise this node's incarnation above ``incarnation`` and broadcast its statement."""
        me = self._table.me
        # A false claim of the largest number must not make our own statement undecodable.
        newer = min(incarnation + 1, MAX_NUMBER)
        self.restate(Alive(me.name, me.id, me.host, me.port, newer, me.metadata))

    def restate(self, said: Alive) -> None:
        """Broadcast a new statement about this node."""
        if not self.leaving:
            self._table.me = said
            self._outbox.broadcast(said.name, said)

    def was_apart(self, name: str, now: float) -> bool:
        """Return whether this node considers a member down, or did so until a moment ago."""
        entry = self._table.get(name)
        return entry is not None and (entry.state == DOWN or now - entry.returned < _RETURN_MEMORY)

    def acknowledged(self, sequence: int, sender: str, now: float) -> None:
        """Handle an ack that answers no probe: a claimant's."""
        if self._claimant is not None and self._claimant[0] == sequence and self._claimant[1].id == sender:
            claimant, self._claimant = self._claimant[1], None
            self._resolve(claimant, now)

    def _note_accuser(self, by: str, now: float) -> None:
        self._hints.accused(by, mutual=self.was_apart(by, now), now=now)

    # ---- claimants -----------------------------------------------------------------------------------------

    def _meet(self, said: Alive, now: float) -> None:
        """Ping the address from which another instance claims our name."""
        if self._claimant is not None:
            return
        sequence = self._rng.getrandbits(32)
        self._claimant = (sequence, said)
        for delay in _PINGS:
            self._timers.at(now + delay, partial(self._ping, sequence))
        self._timers.at(now + _RIVAL_TIMEOUT, partial(self._silent, sequence))

    def _ping(self, sequence: int, _now: float) -> None:
        if self._claimant is not None and self._claimant[0] == sequence:
            claimant = self._claimant[1]
            self._outbox.packet((claimant.host, claimant.port), Ping(sequence, claimant.id))

    def _silent(self, sequence: int, _now: float) -> None:
        if self._claimant is not None and self._claimant[0] == sequence:
            claimant, self._claimant = self._claimant[1], None
            self._outbid_claimant(claimant)

    def _resolve(self, other: Alive, now: float) -> None:
        me = self._table.me
        if (other.metadata.start_time, other.id) >= (me.metadata.start_time, me.id):
            self._outbid_claimant(other)
            return
        where = (other.host, other.port)
        self._give_way(
            Member(other.id, other.name, *where, Status.ONLINE, other.incarnation, other.metadata), now
        )

    def _outbid_claimant(self, claimant: Alive) -> None:
        if claimant.incarnation >= self._table.me.incarnation:
            self.outbid(claimant.incarnation)
