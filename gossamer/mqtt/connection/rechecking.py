"""Checks of a session against the rules of the ACL as they are now: its client comes back, or they change.

Rules: 1. A subscription that is not allowed any more ends.  2. A message that waits, queued or in flight,
goes if its client may not subscribe to its topic; one of QoS 2 in flight leaves PUBREL in its place, or the
client would take the next message with that identifier for a repetition. What the client has already (PUBREL
in flight) stays.  3. Where the rules are those by which the session was checked last, messages are not looked
at: each came by a subscription that they allow.  4. Of a client that is connected the will goes, too; what is
in flight to it stays, since it has that already.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.mqtt.auth.access import Access
from gossamer.mqtt.auth.acl import Gate
from gossamer.mqtt.codec.framing import topic_in
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.messages.message_ids import is_recorded
from gossamer.mqtt.messages.ports import FlowRecorderLike
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.sessions import SessionTable

PUBREL = 0x62
REASON = "not_authorized"


def check_again(
    session: Session, gate: Gate, table: SessionTable, access: Access, recorder: FlowRecorderLike | None
) -> None:
    """Take from a session what its client may not have any more."""
    refused = _unsubscribe(session, gate, table, access)
    if refused or session.checked is not gate.basis:
        _withhold(session, gate, recorder)
        session.checked = gate.basis


def check_connected(channel: Channel, table: SessionTable, access: Access) -> None:
    """Take from a connected client what new rules do not allow it any more."""
    gate, session, will = channel.gate, channel.session, channel.will
    if gate is None or not channel.is_up:
        return
    if _unsubscribe(session, gate, table, access):
        _withhold_queued(session, _by_topic(gate.may_receive))
    if will is not None and not gate.may_publish(will.topic):
        access.denied("will", session.client_id, session.username, will.topic.decode(errors="replace"))
        channel.will = None
        table.leave_will(session.client_id, None, session.expiry)


def _unsubscribe(session: Session, gate: Gate, table: SessionTable, access: Access) -> bool:
    """End the subscriptions that are not allowed; return whether there were any."""
    refused = [name for name in session.subscriptions if not gate.may_subscribe(name)]
    for topic_filter in refused:
        access.denied("subscribe", session.client_id, session.username, topic_filter)
    if refused:
        table.unsubscribe(session, refused)
    return bool(refused)


def _withhold_queued(session: Session, allowed: Callable[[bytes], bool]) -> None:
    kept = [item for item in session.queue if allowed(item[0])]
    if len(kept) < len(session.queue):
        for head, tail, _ in session.queue:
            if not allowed(head):
                session.tell_lost(tail, REASON)
        session.dropped(REASON, len(session.queue) - len(kept))
        session.refill(kept)


def _withhold(session: Session, gate: Gate, recorder: FlowRecorderLike | None) -> None:
    allowed = _by_topic(gate.may_receive)
    _withhold_queued(session, allowed)
    for packet_id, packet in list(session.inflight.items()):
        if packet[0] == PUBREL or allowed(packet):
            continue
        message_id = session.withdraw(packet_id)
        session.dropped(REASON)
        if recorder is not None and is_recorded(message_id):
            recorder.lost(message_id, session, REASON)
        if packet[0] >> 1 & 3 == 2:
            session.end_halves((packet_id,))


def _by_topic(may_receive: Callable[[str], bool]) -> Callable[[bytes], bool]:
    """The same for packets; each topic is looked at once."""
    known: dict[bytes, bool] = {}

    def allowed(packet: bytes) -> bool:
        topic = topic_in(packet)
        found = known.get(topic)
        if found is None:
            found = known[topic] = may_receive(topic.decode())
        return found

    return allowed
