"""Reports of the publish path to the flow recorder: messages delivered, forwarded, and lost on the way.

:class:`Recording` is the second sink of the read loop: a read that is recorded goes through it to the
fan-out. The sink of a read is chosen once, before its first packet; the fan-out itself has no part in it.

A forward is lost where the peer is too far behind (``congested``), its link gave up frames (``gap``), it
refused the frame (``refused``), or it is declared down (``peer_down``). A hint is lost where there was no
room (``away_overflow``), the peer came back without its sessions (``away_sessions_lost``) or is permanently
removed (``away_removed``), or the message had expired (``expired``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gossamer.mqtt.codec.packets import V4
from gossamer.mqtt.messages.message_ids import MARK, NO_ID, is_recorded, read_mark
from gossamer.mqtt.messages.ports import FlowRecorderLike
from gossamer.mqtt.messages.records import walk
from gossamer.mqtt.publish.fanout import Fanout, forms, message_of
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.session.session import Session
from gossamer.routes import Router


class Recording:
    """Fan-out that records: whole reads of a client, and the messages of a peer that have marks."""

    __slots__ = ("_fanout", "_recorder")

    def __init__(self, fanout: Fanout, recorder: FlowRecorderLike) -> None:
        self._fanout = fanout
        self._recorder = recorder

    def run0(
        self,
        plan: Plan,
        head: bytes,
        chunk: bytes,
        count: int,
        version: int,
        publisher: Session | None = None,
    ) -> None:
        """Deliver as :meth:`Fanout.run0`; a peer's run may be recorded in part."""
        recorder = self._recorder
        spans = None
        if publisher is not None or recorder.marks:
            spans = recorder.run(plan, chunk, count, version, publisher, mixed=not head)
        if not spans:
            self._fanout.run0(plan, head, chunk, count, version, publisher)
            return
        marks = recorder.marks_for(spans) if plan.peers else b""
        message_ids = recorder.spread(spans, count) if plan.special else ()
        self._fanout.run0(plan, head, chunk, count, version, publisher, marks, message_ids)

    def run1(
        self, plan: Plan, head: bytes, tails: Sequence[bytes], version: int, publisher: Session | None = None
    ) -> Sequence[int]:
        """Deliver as :meth:`Fanout.run1`; return the ids of the messages, :data:`NO_ID` if not recorded."""
        fanout, recorder = self._fanout, self._recorder
        if publisher is None and not recorder.marks:
            return fanout.run1(plan, head, tails, version)
        mine = plan.v4 if version == V4 else plan.v5
        if publisher is not None and mine.pure:
            if fanout.wide.jobs:
                # Deliveries of unfinished jobs take room in their windows too.
                fanout.wide.mind(plan.sessions)
            room = min([session.window - len(session.inflight) for session in mine.qos1])
            if room >= len(tails):
                fanout.run1(plan, head, tails, version, publisher)
                return recorder.ran(plan, mine.qos1, head, tails[0], len(tails), version, publisher)
        return [self._one(plan, head, tail, version, publisher) for tail in tails]

    def _one(self, plan: Plan, head: bytes, tail: bytes, version: int, publisher: Session | None) -> int:
        """Deliver one publish of QoS 1; return its id."""
        fanout, recorder = self._fanout, self._recorder
        message_id = recorder.one(plan, head, tail, version, publisher)
        if message_id == NO_ID:
            fanout.run1(plan, head, (tail,), version, publisher)
            return message_id
        fanout.received += 1
        if fanout.wide.jobs:
            fanout.wide.mind(plan.sessions)
        for sessions, qos, first, rest in forms(plan, head, (tail,), version):
            fanout.count_sent(sessions, qos, 1)
            if qos:
                recorder.hand(sessions, first, rest[0], message_id)
                continue
            packet = first + rest[0]
            for session in sessions:
                session.push(packet)
                recorder.sent(session, message_id, 0, False, None, False)
        if plan.special:
            message = message_of(head, tail, version, publisher)
            message.id = message_id
            fanout.hand_out(plan, message)
        elif not (plan.sessions or plan.peers):
            fanout.drops["no_subscribers"] += 1
        return message_id


def report_undelivered(router: Router, fanout: Fanout) -> None:
    """Report forwards that ``router`` drops from now on to ``fanout.recorder``."""

    def dropped(peer: str, records: bytes, reason: str, kept: bool) -> None:
        recorder = fanout.recorder
        if recorder is None or MARK not in records:
            return
        message_ids = [
            message_id
            for qos, topic, record in walk(records)
            # Messages for persistent sessions there are kept as hints (``handoff``).
            if record[:1] == MARK
            and is_recorded(message_id := read_mark(record, 0)[0].message_id)
            and not (kept and qos and router.awaits(peer, topic))
        ]
        if message_ids:
            recorder.refused_by(peer, message_ids, reason)

    router.on_dropped(dropped)


def report_lost(fanout: Fanout, peer: str, records: Iterable[bytes], reason: str, left: bytes = b"") -> None:
    """Report hints for ``peer`` in ``records`` as lost, except those still ``left``."""
    recorder = fanout.recorder
    if recorder is None:
        return
    still = set(_ids_in(left))
    message_ids = [message_id for each in records for message_id in _ids_in(each) if message_id not in still]
    if message_ids:
        recorder.refused_by(peer, message_ids, reason if reason == "expired" else f"away_{reason}")


def _ids_in(records: bytes) -> Iterator[int]:
    """Yield the ids of recorded messages of QoS 1 and 2, those that hints have."""
    if MARK in records:
        for qos, _, record in walk(records):
            if qos and record[:1] == MARK and is_recorded(message_id := read_mark(record, 0)[0].message_id):
                yield message_id
