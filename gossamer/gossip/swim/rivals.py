"""Two living nodes with one name: who has to go.

Another life claims this node's name at another address. It is pinged: when it is silent, it was a former life
or a lie, and this node outbids it. When it answers, the one that started first keeps the name; of two that
started in the same instant the smaller id. Both come to the same verdict, so exactly one goes.

Rule: one rival at a time; the next claim is heard again when gossip repeats it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from gossamer.gossip.member import Member, Status
from gossamer.gossip.swim.outbox import Outbox
from gossamer.gossip.swim.refutation import Refutation
from gossamer.gossip.swim.table import MemberTable
from gossamer.gossip.swim.timers import Timers
from gossamer.gossip.wire import Alive, Ping

__all__ = ["Rivals"]

_PATIENCE = 2.0
_PINGS = (0.0, 0.3, 0.6)


class Rivals:
    """Claims to this node's name."""

    def __init__(
        self, table: MemberTable, outbox: Outbox, timers: Timers, own: Refutation, rng: random.Random
    ) -> None:
        self._table = table
        self._outbox = outbox
        self._timers = timers
        self._own = own
        self._rng = rng
        self._rival: tuple[int, Alive] | None = None
        self.give_way: Callable[[Member, float], None] = _nothing
        """Set by the owner: the name belongs to another."""

    def meet(self, said: Alive, now: float) -> None:
        """Another life claims our name elsewhere: is anybody there?"""
        if self._rival is not None:
            return
        sequence = self._rng.getrandbits(32)
        self._rival = (sequence, said)
        for delay in _PINGS:
            self._timers.at(now + delay, partial(self._ping, sequence))
        self._timers.at(now + _PATIENCE, partial(self._silent, sequence))

    def acknowledged(self, sequence: int, sender: str, now: float) -> None:
        """An ack that answers no probe."""
        if self._rival is not None and self._rival[0] == sequence and self._rival[1].id == sender:
            rival, self._rival = self._rival[1], None
            self._resolve(rival, now)

    def _ping(self, sequence: int, _now: float) -> None:
        if self._rival is not None and self._rival[0] == sequence:
            rival = self._rival[1]
            self._outbox.packet((rival.host, rival.port), Ping(sequence, rival.id))

    def _silent(self, sequence: int, _now: float) -> None:
        if self._rival is not None and self._rival[0] == sequence:
            rival, self._rival = self._rival[1], None
            self._outbid(rival)

    def _resolve(self, rival: Alive, now: float) -> None:
        me = self._table.me
        if (rival.metadata.start_time, rival.id) >= (me.metadata.start_time, me.id):
            self._outbid(rival)
            return
        where = (rival.host, rival.port)
        self.give_way(
            Member(rival.id, rival.name, *where, Status.ONLINE, rival.incarnation, rival.metadata), now
        )

    def _outbid(self, rival: Alive) -> None:
        if rival.incarnation >= self._table.me.incarnation:
            self._own.outbid(rival.incarnation)


def _nothing(_holder: Member, _now: float) -> None:
    """Until the owner is wired."""
