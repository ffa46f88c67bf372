"""What is left of a session whose client went elsewhere while its node was down, or cut off.

It is not served any more. What it has queued (and the packets of QoS 1 in flight) is offered to the node with
the higher claim, which takes what its session subscribes to, unless that is a later one that began with a
clean start. Only then the old session ends; what nobody took is counted (``session_superseded``).

What other nodes have kept for it while this one was away is on its way still, as long as they have not said
that that was all: it goes after what is queued, and the session waits for it.

Rules: 1. What was given in a move that came to nothing is not offered again.  2. Messages of QoS 2 in flight
are not offered: the client may have them.  3. An offer is accepted once the disc has it, and repeated until
it is answered; should the claim go away meanwhile, the session is this node's again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.handover import rightful
from gossamer.mqtt.idents import NO_IDENT, ident_in
from gossamer.mqtt.ingest import read_record, record_of
from gossamer.mqtt.message import Message
from gossamer.mqtt.session import Session
from gossamer.mqtt.transfer import message_of
from gossamer.routes import body_of, matches

if TYPE_CHECKING:
    from gossamer.mqtt.takeover import Takeovers

__all__ = ["Remains"]

log = structlog.get_logger(__name__)

CALL_WITHIN = 5.0
AGAIN = 0.5
OFFERED = 100
"""Messages in one offer."""


class Remains:
    """See the module."""

    def __init__(self, home: Takeovers) -> None:
        self._home = home
        self._broker = home.broker
        self._offering: dict[str, tuple[Session, list[bytes]]] = {}

    def end(self, session: Session) -> None:
        """The session is somebody else's: offer what it has, then end it."""
        broker = self._broker
        if session.channel is not None:
            broker.table.suspend(session)
        session.will_due = session.will_at = None
        # The other side subscribes for itself; a share group must not choose this one any more.
        broker.router.unsubscribe_all(session)
        if session.client_id in self._offering:
            return
        records = self._left(session)
        if not records and not self._awaits_more:
            broker.table.end(session, None)
        else:
            self._offering[session.client_id] = session, records
            broker.runtime.spawn(self._offer, session, records, label="mqtt_remains")

    @property
    def _awaits_more(self) -> bool:
        away = self._broker.away
        return away is not None and away.arrivals.pending

    def late(self, message: Message, number: int, moved: Mapping[str, int]) -> None:
        """A message that another node has kept; who moved meanwhile has had it there from a number on."""
        topic = message.topic.decode()
        for client_id, (session, records) in self._offering.items():
            if number < moved.get(client_id, number + 1) and any(
                wanted.qos and not wanted.filter.startswith("$share/") and matches(wanted.filter, topic)
                for wanted, _ in session.subscriptions.values()
            ):
                records.append(record_of(message, self._broker.hub.now()))

    def _left(self, session: Session) -> list[bytes]:
        """What a session has that no other node was given."""
        now = self._broker.hub.now
        flying = () if session.given is not None else session.inflight.items()
        idents = session.idents or {}
        messages = [
            message_of(packet, session.version, now, idents.get(packet_id, NO_IDENT))
            for packet_id, packet in flying
            if packet[0] & 0xF6 == 0x32
        ]
        messages += [
            message or message_of(head + b"\0\1" + tail, session.version, now, ident_in(tail))
            for head, tail, message in list(session.queue)[session.given or 0 :]
        ]
        return [record_of(message, now()) for message in messages]

    async def _offer(self, session: Session, records: list[bytes]) -> None:
        home, broker, client_id = self._home, self._broker, session.client_id
        taken, lost = 0, 0
        try:
            while broker.sessions.get(client_id) is session:
                owner = rightful(home.claims(client_id))
                if owner == home.node or owner is None:
                    # Whoever claimed it is gone for good.
                    home.keep(session)
                    return
                offered, refused = await self._offer_to(owner, session, records)
                taken, lost = taken + offered - refused, lost + refused
                if not records and not self._awaits_more:
                    broker.hub.dropped("session_superseded", lost)
                    log.info("session_superseded", client_id=client_id, by=owner, taken=taken, lost=lost)
                    broker.table.end(session, None)
                    return
                await asyncio.sleep(AGAIN)
        finally:
            self._offering.pop(client_id, None)

    async def _offer_to(self, node: str, session: Session, records: list[bytes]) -> tuple[int, int]:
        """Offer ``records``; what was answered for leaves the list: how many, and how many were not taken."""
        count = lost = 0
        while records:
            offered = records[:OFFERED]
            answer = await remote.call(
                node, "mqtt.remains", session.client_id, session.born, offered, timeout=CALL_WITHIN
            )
            if not isinstance(answer, remote.Returned) or not isinstance(answer.value, int):
                break
            count += len(offered)
            lost += len(offered) - answer.value
            del records[: len(offered)]
        return count, lost

    async def accept(self, client_id: str, born: int, records: list[bytes]) -> int | None:
        """What another node still had for a client of this one; how many were taken. None: not now."""
        if self._home.is_moving(client_id):
            return None
        hub = self._broker.hub
        session = self._broker.sessions.get(client_id)
        levels: list[tuple[str, int]] = []
        if session is not None and not (session.clean and session.born > born):
            levels = [(body_of(wanted.filter), wanted.qos) for wanted, _ in session.subscriptions.values()]
        taken = 0
        for record in records:
            message, _ = read_record(record, 0, len(record), self._broker.hub.now())
            topic = message.topic.decode()
            qos = max((qos for topic_filter, qos in levels if matches(topic_filter, topic)), default=0)
            if qos and session is not None:
                session.take(message, qos=min(message.qos, qos), retain=False)
                taken += 1
            elif message.ident != NO_IDENT and hub.trail is not None:
                # The other node counts it; which ones these are is known here.
                hub.trail.lost(message.ident, Session(client_id, hub=hub), "session_superseded")
        if taken and session is not None and session.store is not None:
            await session.store.settled()
        return taken
