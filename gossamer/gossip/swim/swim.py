"""Gossip state machine of one node: SWIM (Das, Gupta, Motivala, 2002) with Lifeguard's three extensions.

``step(input, now)`` takes one input and returns the actions to do, in order. No clock, no I/O, no tasks; the
only randomness is the generator passed in, and nothing iterates over a set, so one seed is one history.

The parts, around one ``core``: ``table`` stores, ``verdicts`` applies statements, ``refutation`` answers
those about this node and resolves name conflicts, ``prober`` detects failures, ``dissemination`` gossips and
exchanges tables, ``hints`` watches for partitions, ``outbox`` fills packets.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from swimprotocol.status import Status

import gossamer.gossip.steps as steps
import gossamer.gossip.wire as wire
from gossamer.config import GossipConfig
from gossamer.gossip.member import (
    ForcedOut,
    LinkEvidence,
    LoopLag,
    Member,
    MemberLeft,
    MemberMetadata,
    NameConflict,
    check_metadata,
)
from gossamer.gossip.swim.core import Core
from gossamer.gossip.swim.dissemination import Gossiper, PushPull
from gossamer.gossip.swim.prober import Prober
from gossamer.gossip.swim.refutation import Refutation
from gossamer.gossip.swim.table import ALIVE, DOWN, LEFT, SUSPECT, MemberEntry
from gossamer.gossip.swim.verdicts import Verdicts
from gossamer.network import Address

LAG_THRESHOLD = 0.15
"""Timer delay in seconds above which this process, not its peers, counts as slow."""


class Swim:
    """One node's membership. ``id`` is 16 hexadecimal digits, new for every instance."""

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the field's word
        name: str,
        address: Address,
        incarnation: int,
        metadata: MemberMetadata,
        settings: GossipConfig,
        rng: random.Random,
        now: float,
    ) -> None:
        check_metadata(metadata)
        core = Core(wire.Alive(name, id, address[0], address[1], incarnation, metadata), settings, rng)
        self._settings = settings
        self.table, self.awareness = core.table, core.awareness
        self._timers, self._outbox, self._hints = core.timers, core.outbox, core.hints
        self._own = Refutation(core, forced_out=self._forced_out, give_way=self._give_way)
        self._verdicts = Verdicts(core, self._own)
        self._push_pull = PushPull(core, self._verdicts)
        self._prober = Prober(core, self._verdicts, self._push_pull.exchange)
        self._gossiper = Gossiper(core)
        self._verdicts.prober = self._prober
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            steps.Tick: self._tick,
            steps.PacketReceived: self._packet,
            steps.StreamRequested: self._stream_requested,
            steps.StreamReplied: self._stream_replied,
            steps.StreamFailed: self._stream_failed,
            steps.Requested: self._requested,
            LinkEvidence: self._prober.evidence,
            LoopLag: self._late,
        }
        self._stalled_at = -1e9
        self._leaving: steps.Token | None = None
        self._standalone = False
        self._prober.start(now)
        self._push_pull.start(now)

    @property
    def deadline(self) -> float | None:
        """Time at which the next :class:`Tick` is due."""
        return self._timers.deadline

    @property
    def standalone(self) -> bool:
        """True after a leave, until this node's own processes join again."""
        return self._standalone

    @property
    def local(self) -> Member:
        """This node's member."""
        me = self.table.me
        return Member(
            me.id, me.name, me.host, me.port, Status.ONLINE, me.incarnation, me.metadata, self._standalone
        )

    def members(self) -> list[Member]:
        """Return all known members, this node first; those that left until their tombstone expires."""
        return [self.local, *(entry.member() for entry in self.table)]

    def step(self, event: steps.Input, now: float) -> list[steps.Action]:
        """Process one input.

        Raises:
            PacketRejected: the input's bytes are no packet. It changed nothing; ``drain`` returns the
                actions after a malformed answer.
        """
        lag = self._timers.lag(now)
        if lag > LAG_THRESHOLD:
            self._stalled(lag, now)
            self._timers.run(now)
        self._handlers[type(event)](event, now)
        self._gossiper.start(now)
        return self._outbox.drain()

    def timed(self, tell: Callable[[float], None]) -> None:
        """Call ``tell`` with the seconds of each direct answer to a probe."""
        self._prober.timed = tell

    def restore(self, records: list[wire.Record], now: float) -> None:
        """Restore the table of a predecessor in the same process, without events, and announce this node."""
        for record in records:
            state = ALIVE if record.state == SUSPECT else record.state
            entry = MemberEntry(record.alive, state, now - record.age)
            self.table.put(entry, now)
            if state == ALIVE:
                self._prober.appeared(entry)
        if records:
            self._own.restate(self.table.me)
            self._gossiper.at_once(now)

    def drain(self) -> list[steps.Action]:
        """Return the actions of a step that raised."""
        return self._outbox.drain()

    # ---- time -------------------------------------------------------------------------------------------

    def _tick(self, _event: steps.Tick, now: float) -> None:
        self._timers.run(now)

    def _late(self, event: LoopLag, now: float) -> None:
        # Between two of our own timers, or it would have been detected already.
        if event.seconds > LAG_THRESHOLD and now - self._stalled_at > event.seconds:
            self._stalled(event.seconds, now)

    def _stalled(self, lag: float, now: float) -> None:
        self._stalled_at = now
        self.awareness.apply(1)
        self._prober.extend(lag)
        self._verdicts.extend_suspicions(lag)

    # ---- packets ----------------------------------------------------------------------------------------

    def _packet(self, event: steps.PacketReceived, now: float) -> None:
        messages = wire.decode(event.body)
        if self._standalone:
            return
        sender = self.table.by_id(event.sender)
        for message in messages:
            if isinstance(message, wire.Ping):
                self._prober.pinged(message, event.sender, event.source, sender)
                if sender is None and self._leaving is None:
                    self._push_pull.exchange(event.source, now)
            elif isinstance(message, wire.Ack):
                if not self._prober.acknowledged(message.sequence, event.sender, now):
                    self._own.acknowledged(message.sequence, event.sender, now)
            elif isinstance(message, wire.Alive):
                self._verdicts.alive(message, now)
            elif isinstance(message, wire.Suspect):
                self._verdicts.suspect(message, now)
            elif isinstance(message, wire.Dead):
                self._verdicts.dead(message, now)
            elif isinstance(message, wire.Nack):
                self._prober.nacked(message.sequence)
            elif isinstance(message, wire.PingRequest):
                self._prober.requested(message, event.sender, event.source, now)
            elif isinstance(message, wire.Mismatch):
                self._prober.on_identity_mismatch(message.sequence, event.sender, event.source, now)

    # ---- streams ----------------------------------------------------------------------------------------

    def _stream_requested(self, event: steps.StreamRequested, now: float) -> None:
        messages = wire.decode(event.body)
        if len(messages) != 1:
            raise wire.PacketRejected("malformed", f"{len(messages)} messages in a stream frame, expected 1")
        message = messages[0]
        if isinstance(message, wire.Ping):
            mine = message.target == self.table.me.id and not self._standalone
            self._outbox.reply(
                event.token, wire.Ack(message.sequence) if mine else wire.Mismatch(message.sequence)
            )
        elif isinstance(message, (wire.Compare, wire.Sync)):
            if self._standalone or self._leaving is not None:
                self._outbox.reply(event.token, wire.Refuse("left"))
            elif isinstance(message, wire.Compare):
                self._push_pull.compared(event.token, message, now)
            else:
                self._push_pull.requested(event.token, message, self._name_of(event.sender, message), now)
        else:
            raise wire.PacketRejected("malformed", f"a {type(message).__name__} asks for nothing on a stream")

    def _stream_replied(self, event: steps.StreamReplied, now: float) -> None:
        kind, number = _token(event.token)
        try:
            messages = wire.decode(event.body)
        except wire.PacketRejected:
            self._stream_failed(steps.StreamFailed(event.token, "malformed"), now)
            raise
        message = messages[0] if len(messages) == 1 else None
        if kind == "sync":
            answer = (
                message
                if isinstance(message, (wire.RowHashes, wire.Refuse, wire.Sync)) and not self._standalone
                else None
            )
            by = self._name_of(event.sender, answer)
            self._push_pull.replied(number, answer, by, now)
        elif isinstance(message, wire.Ack):
            self._prober.stream_answered(number, event.sender, now)

    def _stream_failed(self, event: steps.StreamFailed, now: float) -> None:
        kind, number = _token(event.token)
        if kind == "sync":
            self._push_pull.failed(number, event.reason)
        else:
            self._prober.stream_failed(number, event.reason, now)

    def _name_of(self, sender: str, message: object) -> str:
        entry = self.table.by_id(sender)
        if entry is not None:
            return entry.name
        if isinstance(message, wire.Sync) and message.records:
            return message.records[0].alive.name
        return sender

    # ---- requests ---------------------------------------------------------------------------------------

    def _requested(self, event: steps.Requested, now: float) -> None:
        match event.request:
            case steps.Join(addresses):
                self._join(event.token, addresses, now)
            case steps.Leave(returning):
                self._leave(event.token, returning, now)
            case steps.ForceLeave() as request:
                self._outbox.answer(event.token, self._force_leave(request, now))
            case steps.UpdateMetadata(metadata):
                check_metadata(metadata)
                me = self.table.me
                self._own.restate(
                    msgspec.structs.replace(me, metadata=metadata, incarnation=me.incarnation + 1)
                )
                self._outbox.answer(event.token, None)

    def _join(self, token: steps.Token, addresses: tuple[Address, ...], now: float) -> None:
        if self._standalone:
            self._standalone = self._own.leaving = False
            self._hints.begin(now)
            self._own.restate(self.table.me)
        self._push_pull.join(token, addresses, now)

    def _leave(self, token: steps.Token, returning: bool, now: float) -> None:
        if not self.table.live:
            self._withdraw(now, returning=returning)
            self._outbox.answer(token, None)
            return
        me = self.table.me
        self._hints.withdraw()
        self._own.leaving = True
        self._outbox.broadcast(me.name, wire.Dead(me.name, me.id, me.incarnation, me.name, not returning))
        if self._leaving is None:
            self._leaving = token
            self._timers.at(now + self._settings.leave_delay, partial(self._left, returning=returning))
            self._gossiper.at_once(now)
        else:
            self._outbox.answer(token, None)

    def _left(self, now: float, *, returning: bool) -> None:
        token, self._leaving = self._leaving, None
        self._withdraw(now, returning=returning)
        self._outbox.answer(token, None)

    def _withdraw(self, now: float, *, returning: bool) -> None:
        """Drop all members and become standalone until asked to join; nothing more is sent to them.

        For this node they have left too, with all that it keeps for them, unless it is ``returning``.
        """
        self._standalone = True
        self._hints.withdraw()
        for entry in list(self.table):
            if entry.state < LEFT and not returning:
                self._outbox.emit(MemberLeft(entry.member()))
            self.table.remove(entry.name, now)
            self._outbox.forget(entry.name)
        self._prober.reset()
        self._outbox.forget(self.table.me.name)
        self.table.me = msgspec.structs.replace(self.table.me, incarnation=self.table.me.incarnation + 1)

    def _force_leave(self, request: steps.ForceLeave, now: float) -> bool:
        entry = self.table.get(request.name)
        if entry is None or entry.state == LEFT or not (request.final or entry.state == DOWN):
            return False
        said = wire.Dead(entry.name, entry.id, entry.incarnation, self.table.me.name, True, not request.final)
        self._verdicts.dead(said, now)
        self._outbox.packet(entry.address, entry=entry)
        return True

    # ---- from the parts ---------------------------------------------------------------------------------

    def _forced_out(self, by: str, now: float) -> None:
        if self._leaving is None:
            self._withdraw(now, returning=False)
            self._outbox.emit(ForcedOut(by))

    def _give_way(self, holder: Member, now: float) -> None:
        self._withdraw(now, returning=False)
        self._outbox.emit(NameConflict(self.table.me.name, holder))


def _token(token: steps.Token) -> tuple[str, int]:
    match token:
        case (str(kind), int(number)):
            return kind, number
        case _:
            return "", -1
