"""The second sink of the read loop: a read that is recorded goes by here to the fan-out.

Which sink takes a read is decided once, before its first packet; the fan-out itself knows nothing of records.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.mqtt.codec.packets import V4
from gossamer.mqtt.messages.message_ids import NO_IDENT
from gossamer.mqtt.messages.ports import TrailLike
from gossamer.mqtt.publish.fanout import Fanout, forms, message_of
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.session.session import Session


class Recording:
    """The fan-out for what is recorded: of a client whole reads, of a peer what its marks name."""

    __slots__ = ("_hub", "_trail")

    def __init__(self, hub: Fanout, trail: TrailLike) -> None:
        self._hub = hub
        self._trail = trail

    def run0(
        self,
        plan: Plan,
        head: bytes,
        chunk: bytes,
        count: int,
        version: int,
        publisher: Session | None = None,
    ) -> None:
        """As :meth:`Fanout.run0`; a peer's run may be recorded in part."""
        trail = self._trail
        spans = None
        if publisher is not None or trail.marks:
            spans = trail.run(plan, chunk, count, version, publisher, mixed=not head)
        if not spans:
            self._hub.run0(plan, head, chunk, count, version, publisher)
            return
        marks = trail.marks_for(spans) if plan.peers else b""
        idents = trail.spread(spans, count) if plan.special else ()
        self._hub.run0(plan, head, chunk, count, version, publisher, marks, idents)

    def run1(
        self, plan: Plan, head: bytes, tails: Sequence[bytes], version: int, publisher: Session | None = None
    ) -> Sequence[int]:
        """As :meth:`Fanout.run1`."""
        hub, trail = self._hub, self._trail
        if publisher is None and not trail.marks:
            return hub.run1(plan, head, tails, version)
        mine = plan.v4 if version == V4 else plan.v5
        if publisher is not None and mine.pure:
            if hub.wide.jobs:
                # What they are behind with takes room as well.
                hub.wide.mind(plan.sessions)
            room = min([session.window - len(session.inflight) for session in mine.qos1])
            if room >= len(tails):
                hub.run1(plan, head, tails, version, publisher)
                return trail.ran(plan, mine.qos1, head, tails[0], len(tails), version, publisher)
        return [self._one(plan, head, tail, version, publisher) for tail in tails]

    def _one(self, plan: Plan, head: bytes, tail: bytes, version: int, publisher: Session | None) -> int:
        """One publish of QoS 1; its identifier."""
        hub, trail = self._hub, self._trail
        ident = trail.one(plan, head, tail, version, publisher)
        if ident == NO_IDENT:
            hub.run1(plan, head, (tail,), version, publisher)
            return ident
        hub.received += 1
        if hub.wide.jobs:
            hub.wide.mind(plan.sessions)
        for sessions, qos, first, rest in forms(plan, head, (tail,), version):
            hub.count_sent(sessions, qos, 1)
            if qos:
                trail.hand(sessions, first, rest[0], ident)
                continue
            packet = first + rest[0]
            for session in sessions:
                session.push(packet)
                trail.sent(session, ident, 0, False, None, False)
        if plan.special:
            message = message_of(head, tail, version, publisher)
            message.ident = ident
            hub.hand_out(plan, message)
        elif not (plan.sessions or plan.peers):
            hub.drops["no_subscribers"] += 1
        return ident
