"""Redispatch: messages that a member of a share group had not acknowledged when it ended go to another.

A session that ends, because its client ended it or it expired, leaves messages of QoS 1 and 2 behind: in
flight or queued. For those of share groups a member is chosen again, here or on another node; and so for
messages in transit to a group on a node that is declared down, and for those that are queued for a member
which takes nothing while another has room. If all members are on nodes that are away, the messages wait for
them (``owed``).

Rules: 1. A QoS 1 message that the client may have is sent again; one of QoS 2 that was sent is not
([MQTT-4.8.2-5]).  2. Order is kept: in flight, then queued; at most :data:`STEP` in a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from gossamer.errors import GossamerError
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import read_record, record_of
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.owed import Owed
from gossamer.mqtt.session.orphans import Orphan, take_back
from gossamer.mqtt.session.session import Session
from gossamer.routes import Delivery, Forwarder, Group, Router

log = structlog.get_logger(__name__)

STEP = 500
"""Messages in a turn of the loop."""
_LIMIT = 268_435_460


class Redispatch:
    """Chooses another member by the router, and delivers to it by ``fanout`` or its node's forwarder."""

    def __init__(
        self,
        router: Router,
        fanout: Fanout,
        owed: Owed,
        *,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._router = router
        self._fanout = fanout
        self._owed = owed
        self._call_soon = call_soon
        self.count = 0
        """Number of messages that were given to another member."""
        router.on_group_lost(self.lost)
        router.on_stuck(self.relieve)

    def __call__(self, left: list[Orphan]) -> None:
        """Give these to other members."""
        for name, message in left[:STEP]:
            self._give(name, message, None)
        if len(left) > STEP:
            self._call_soon(lambda: self(left[STEP:]))

    def relieve(self, group: Group) -> None:
        """Give half of what is queued for members that take nothing to those that have room."""
        room = STEP
        for session in group.stuck:
            if room and isinstance(session, Session) and session.queue:
                left = take_back(session, group.name, room)
                room -= len(left)
                self(left)

    def lost(self, name: str, record: bytes, on_safe: Callable[[bool], None]) -> None:
        """Redispatch a record that was in transit to a group on a node that is down."""
        try:
            message, _ = read_record(record, 0, len(record), self._fanout.now())
        except GossamerError as error:
            log.warning("not_redispatched", group=name, error=str(error))
            on_safe(True)
            return
        self._give(name, message, on_safe)

    def again(self, name: str, record: bytes, on_safe: Callable[[bool], None], online: bool) -> bool:
        """Give a record that waited to a member; False: there is still none. See :data:`.owed.Give`."""
        group = self._router.group(name)
        if group is None:
            return False
        message, _ = read_record(record, 0, len(record), self._fanout.now())
        chosen = self._router.pick(group, "", message.topic.decode(), online=online)
        if chosen is None:
            return False
        self._to(chosen, name, message, on_safe)
        return True

    def _give(self, name: str, message: Message, on_safe: Callable[[bool], None] | None) -> None:
        group = self._router.group(name)
        chosen = None if group is None else self._router.pick(group, "", message.topic.decode())
        if chosen is not None:
            self._to(chosen, name, message, on_safe)
        elif message.qos and self._router.expects(name):
            self._owed.wait(name, record_of(message, self._fanout.now()), on_safe)
        else:
            self._fanout.lose(message, "no_group_member")
            (on_safe or _ignore)(True)

    def _to(
        self,
        chosen: Delivery | Forwarder,
        name: str,
        message: Message,
        on_safe: Callable[[bool], None] | None,
    ) -> None:
        self.count += 1
        self._fanout.chosen(message, name, None if isinstance(chosen, Delivery) else chosen.peer)
        if not isinstance(chosen, Delivery):
            record = record_of(message, self._fanout.now())
            if on_safe is None:
                # Its publisher has its acknowledgement already.
                on_safe = self._owed.hand_on(name, record)
            chosen.append_acked(record, on_safe)
        else:
            self._fanout.member(chosen, message, name)
            (on_safe or _ignore)(True)


def _ignore(_safe: bool) -> None:
    pass
