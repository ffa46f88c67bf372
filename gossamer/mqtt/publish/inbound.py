"""Inbound forwards: reads a batch of records from another node, and delivers it.

It is read as input of clients is (``runs``), but without acknowledgements and without forwarding: a batch
goes to the sessions of this node only.

Rules: 1. A record that cannot be read ends its batch, is counted and logged: it comes from an authenticated
node, so it is a bug, not an attack to answer.  2. Forwarded messages are not retained here: they would be out
of date as soon as no session here subscribes to the topic any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from gossamer.mqtt.codec.errors import MqttProtocolError, malformed
from gossamer.mqtt.codec.packets import V4
from gossamer.mqtt.codec.wire import MAX_VARINT
from gossamer.mqtt.flow.backpressure import Hold
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import MARK, NO_ID, is_recorded, read_mark
from gossamer.mqtt.messages.records import MOVE_MARK, read_record, record_of
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.owed import Owed
from gossamer.mqtt.publish.parts import Parts, SlowBatches
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.publish.recording import Recording
from gossamer.mqtt.publish.runs import QOS0, runs
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.routes import Delivery, Group, Router

log = structlog.get_logger(__name__)


class Ingest:
    """Takes forwards of peers. Call it with the peer's name and a batch of records."""

    def __init__(
        self, router: Router, fanout: Fanout, publishing: Publishing, table: SessionTable, owed: Owed
    ) -> None:
        self.version = V4
        self.max_packet = MAX_VARINT + 5
        self.plan_of: Callable[[bytes], Plan | None] = publishing.plan_of
        self._router = router
        self._fanout = fanout
        self._publishing = publishing
        self._table = table
        self._owed = owed
        self.cache_get = publishing.cache_get
        self.on_mark: Callable[[str, str], object] | None = None
        """Called as ``on_mark(node, token)`` with marks of sessions that move."""
        self.on_noted: Callable[[str], object] | None = None
        """Called with a node whose messages have changed sessions on disc, before that commit."""
        self._named = NO_ID
        """Id of the next message of QoS 2."""
        self._slow = SlowBatches()
        self.messages = 0
        """Messages of peers so far; the broker counts them as received, too."""

    def __call__(self, peer: str, data: bytes) -> Hold | None:
        """Deliver a batch. With a :class:`Hold`, report that it took effect at its release, not now."""
        fanout = self._fanout
        fanout.origin = peer
        store = self._table.store
        before = 0 if store is None else store.notes
        parts = None if store is None or store.copies is None else Parts(store)
        received = fanout.received
        recorder = fanout.recorder
        if recorder is not None and recorder.marks:
            recorder.marks.clear()
        sink = fanout if recorder is None else Recording(fanout, recorder)
        pos, end = 0, len(data)
        try:
            while pos < end:
                for kind, plan, head, start, stop, count in runs(data, pos, self, local=True):
                    pos = stop
                    if plan is None:
                        raise malformed("MQTT 2.1.2", "a record is an acknowledgement")
                    if kind == QOS0:
                        sink.run0(plan, head, data[start:pos], count, V4)
                        continue
                    size, body = (pos - start) // count, len(head) + 2
                    tails = []
                    for at in range(start + size, pos + 1, size):
                        tails.append(data[at - size + body : at])  # noqa: PERF401 - that would be a call
                    sink.run1(plan, head, tails, V4)
                    if parts is not None:
                        parts = None if fanout.wide.jobs else parts.end(pos)
                if pos < end:
                    pos = self._other(data, pos, end)
                    if parts is not None:
                        parts = None if fanout.wide.jobs else parts.end(pos)
        except (MqttProtocolError, IndexError) as error:
            parts = None
            fanout.dropped("bad_record")
            log.error("bad_record", peer=peer, error=str(error))
        finally:
            fanout.origin = ""
            self.messages += fanout.received - received
        if fanout.pressure.hold is None and not fanout.wide.jobs and (store is None or store.notes == before):
            return None
        return self.held(peer, before, None if parts is None else parts.end(pos))

    def held(self, peer: str, before: int, parts: Parts | None = None) -> Hold | None:
        """Return the hold of a batch, for sessions that are far behind, wide fan-out or the disc; None: none.

        ``before`` are the ``Publishing.notes`` before the batch.
        """
        hold = self._fanout.pressure.hold
        store = self._table.store
        wide = self._fanout.wide
        if store is None or store.notes == before:
            if not wide.jobs:
                return hold
            out = Hold()
            wide.append_acked(b"", lambda _: out.release() if hold is None else hold.then(out.release))
            return out
        # The effects of the batch, and the position that it was taken, go in one commit.
        wide.finish()
        if self.on_noted is not None:
            self.on_noted(peer)
        kept = Hold()
        wait = partial(store.since(before).append_acked, b"", lambda _: kept.release())
        if hold is None:
            wait()
            if parts is not None and not kept.released:
                self._slow.watch(kept, parts)
        else:
            hold.then(wait)
        return kept

    def group(self, peer: str, group: Group, data: bytes) -> Hold | None:
        """Deliver a batch for a share group: each record goes to one member of ``group``."""
        fanout = self._fanout
        before = self._publishing.notes
        pos = 0
        fanout.origin = peer
        try:
            while pos < len(data):
                message, pos = read_record(data, pos, len(data), fanout.now())
                fanout.received += 1
                self.messages += 1
                if fanout.recorder is not None:
                    fanout.recorder.arrive(message, peer)
                delivery = group.pick_here(peer, message.topic.decode())
                if delivery is not None and delivery.subscriber.online:
                    fanout.member(delivery, message, group.name)
                elif not self._pass_on(group, peer, message):
                    if delivery is not None:
                        fanout.member(delivery, message, group.name)
                    else:
                        self._nobody(group, message)
        except (MqttProtocolError, IndexError) as error:
            fanout.dropped("bad_record")
            log.error("bad_record", peer=peer, error=str(error))
        finally:
            fanout.origin = ""
        return self.held(peer, before)

    def _pass_on(self, group: Group, peer: str, message: Message) -> bool:
        """Forward a message for a group whose members here have left or gone offline while it was in transit
        to a node with an online member; False: there is none.

        It is this node's from now on, on its disc. If the acknowledgement to ``peer`` waited for the other
        node, three nodes whose members have all just left would each wait for the next forever: streams are
        acknowledged in order, and each would hold back the one that the others wait for.
        """
        fanout = self._fanout
        # Not back to its sender: two nodes that each believe the other has members would loop.
        chosen = self._router.pick(group, peer, message.topic.decode(), online=True, besides=peer)
        if chosen is None or isinstance(chosen, Delivery):
            return False
        fanout.chosen(message, group.name, chosen.peer)
        record = record_of(message, fanout.now())
        if message.qos:
            chosen.append_acked(record, self._owed.hand_on(group.name, record))
        else:
            chosen.append(record)
        return True

    def _nobody(self, group: Group, message: Message) -> None:
        """Keep a message until the group has a member, at any node; QoS 0 is dropped."""
        if message.qos:
            self._owed.wait(group.name, record_of(message, self._fanout.now()))
        else:
            self._fanout.lose(message, "no_group_member")

    def _other(self, data: bytes, pos: int, end: int) -> int:
        """Take a mark, or a record with properties, RETAIN or QoS 2; return where the next one starts."""
        fanout = self._fanout
        if data[pos] == MOVE_MARK[0]:
            stop = pos + 2 + data[pos + 1]
            if self.on_mark is not None:
                self.on_mark(fanout.origin or "", data[pos + 2 : stop].decode(errors="replace"))
            return stop
        recorder = fanout.recorder
        if data[pos] == MARK[0]:
            mark, stop = read_mark(data, pos)
            if recorder is not None and is_recorded(mark.message_id):
                recorder.marked(mark)
            else:
                self._named = mark.message_id
            return stop
        message, stop = read_record(data, pos, end, fanout.now())
        if message.qos == 2:
            message.id, self._named = self._named, NO_ID
        fanout.received += 1
        route = self.cache_get(message.topic) or self._publishing.resolve(message.topic)
        if recorder is not None:
            recorder.arrive(message, fanout.origin or "")
            if is_recorded(message.id):
                recorder.routed(message, route, ())
        fanout.message(route, message)
        return stop
