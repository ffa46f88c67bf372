"""What is said of this node itself, and what it answers: SWIM's refutation by a higher incarnation.

Only the node raises its own incarnation, and it does so to outbid what others hold of it. It says nothing new
once it is leaving: what it hears then is its own goodbye, repeated. A leave that another one said
(force-leave) cannot be refuted.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.gossip.member import MAX_NUMBER
from gossamer.gossip.swim.awareness import Awareness
from gossamer.gossip.swim.hints import PartitionHints
from gossamer.gossip.swim.outbox import Outbox
from gossamer.gossip.swim.table import ALIVE, DOWN, LEFT, SUSPECT, MemberTable
from gossamer.gossip.wire import Alive, Dead, Suspect

__all__ = ["Refutation"]

_RETURN_MEMORY = 60.0


class Refutation:
    """Statements under this node's own name."""

    def __init__(
        self, table: MemberTable, outbox: Outbox, awareness: Awareness, hints: PartitionHints
    ) -> None:
        self._table = table
        self._outbox = outbox
        self._awareness = awareness
        self._hints = hints
        self.leaving = False
        """Set by the owner: this node has said goodbye."""
        self.rival: Callable[[Alive, float], None] = _nothing
        """Set by the owner: another life claims this node's name at another address."""
        self.forced_out: Callable[[str, float], None] = _nothing
        """Set by the owner: this node has been removed by ``by``."""

    def claimed(self, said: Alive, state: int, by: str, now: float) -> bool:
        """Take a life of this node's name that was heard of, in ``state``. True when it changed something."""
        me = self._table.me
        if said.id == me.id:
            if self.leaving:
                return False
            if state == LEFT and said.incarnation >= me.incarnation:
                self.forced_out(by, now)
                return True
            if said.incarnation > me.incarnation or (state != ALIVE and said.incarnation == me.incarnation):
                if state == DOWN:
                    self._note_accuser(by, now)
                self.outbid(said.incarnation)
                return True
            return False
        if state <= SUSPECT and (said.host, said.port) != (me.host, me.port):
            self.rival(said, now)
            return False
        if said.incarnation >= me.incarnation:
            self.outbid(said.incarnation)
            return True
        return False

    def accused(self, said: Suspect | Dead, now: float) -> bool:
        """Answer who suspects this node, or holds it for dead."""
        me = self._table.me
        if said.id != me.id or said.by == me.name or self.leaving:
            return False
        if said.incarnation < me.incarnation:
            # Refuted before, but this accuser has not heard: say it again.
            self._outbox.broadcast(me.name, me)
            return False
        if isinstance(said, Dead) and said.left and not said.removed:
            self.forced_out(said.by, now)
            return True
        self._awareness.apply(1)
        if isinstance(said, Dead):
            self._note_accuser(said.by, now)
        self.outbid(said.incarnation)
        return True

    def outbid(self, incarnation: int) -> None:
        """Make this node's own statement newer than ``incarnation`` and spread it."""
        me = self._table.me
        # A lie about the largest number there is must not make our own statement undecodable.
        newer = min(incarnation + 1, MAX_NUMBER)
        self.restate(Alive(me.name, me.id, me.host, me.port, newer, me.metadata))

    def restate(self, said: Alive) -> None:
        """Spread a new statement about this node."""
        if not self.leaving:
            self._table.me = said
            self._outbox.broadcast(said.name, said)

    def was_apart(self, name: str, now: float) -> bool:
        """Whether this node holds a member for dead, or did so until a moment ago."""
        entry = self._table.get(name)
        return entry is not None and (entry.state == DOWN or now - entry.returned < _RETURN_MEMORY)

    def _note_accuser(self, by: str, now: float) -> None:
        self._hints.accused(by, mutual=self.was_apart(by, now), now=now)


def _nothing(_what: object, _now: float) -> None:
    """Until the owner is wired."""
