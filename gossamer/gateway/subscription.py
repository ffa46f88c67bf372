"""One subscription of a client: a subscriber of the router that sends over the link, within a window.

Rules: 1. At most ``window`` messages are with the client and not taken; the rest waits in a queue here.  2.
The queue is bounded, in messages and bytes. QoS 0 without room is dropped and counted.  3. For QoS 1 and 2
publishers wait before anything is lost, as for a session that is behind: those of this node from half of the
bound on, those of other nodes once it is reached. Only with a client that takes nothing at all the queue
grows to :data:`FAR` times its bound; the number of messages lost then is sent to it, in their place.  4. All
messages of one turn of the loop are sent together.  5. Retained messages are sent in steps, and no faster
than the client takes: a topic is looked up in its turn, and bodies on other nodes are fetched last, several
at a time. Share groups get none (MQTT 5.0, 4.8.2).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from gossamer.errors import GossamerError
from gossamer.gateway.remote_client import Publisher, RemoteClient, bounded
from gossamer.mqtt import Broker, Message, is_recorded
from gossamer.routes import SubscriptionOptions, body_of, parse_filter
from gossamer.supervisor import Pid

BATCH_BYTES = 1024 * 1024
MAX_QUEUED_BYTES = 16 * 1024 * 1024
STEP = 200
"""Retained topics in a turn of the loop."""
FETCHES = 16
FAR = 4
"""Times its bound that the queue of a client holds before QoS 1 and 2 are lost."""

Emit = Callable[[list[list[object]], int, int], None]
"""Sends ``(messages, dropped, lost)``; ``lost`` messages of QoS 1 and 2 are missing before the first."""


class _Waiting(NamedTuple):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    expires_at: float | None
    lost: int
    message_id: int
    share: str | None
    stored: bool


class RemoteSubscription:
    """Implements the router's ``Subscriber``, and the ``Recipient`` of back-pressure.

    ``client_id`` is its name for the recorder, ``owner`` the client as a publisher, which does not wait for
    its own subscription. ``acknowledges``: the client reports what it has taken.
    """

    # In a share group it has its turn whatever the length of its queue.
    online = ready = True
    queue = ()
    delivered = 0

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        topic_filter: str,
        qos: int,
        *,
        emit: Emit,
        owner: Publisher | None,
        window: int,
        acknowledges: bool = True,
        max_bytes: int | None = None,
    ) -> None:
        self.filter = topic_filter
        self.qos = bounded(qos)
        self.client = RemoteClient(broker.fanout, client_id)
        self._broker = broker
        self._emit = emit
        self._pressure = broker.fanout.pressure
        self._acknowledges = acknowledges
        self._window = window
        self._max_queued = max(1, broker.config.limits.max_queued)
        self._max_bytes = max_bytes or MAX_QUEUED_BYTES
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._sent = 0
        self._taken = 0
        self._lost = 0
        self._scheduled = False
        self._room = asyncio.Event()
        self._room.set()
        self._far = False
        self.channel = owner
        self.behind = False
        self.waiting: list[object] | None = None
        self.delivered = 0
        """Count of the client's progress."""
        self.dropped = 0
        self.closed = False

    def open(self) -> int | None:
        """Subscribe; return the number that ``Router.visible`` takes.

        Raises:
            InvalidTopicFilter: it is no topic filter.
        """
        options = SubscriptionOptions(qos=self.qos, retain_as_published=True)
        try:
            # The router takes those of tenants, too.
            parse_filter(self.filter)
            return self._broker.router.subscribe(self.filter, self, options).seq
        except GossamerError:
            self.client.close("refused")
            raise

    def begin(self, handling: int = 0, *, again: bool = False, link_to: Pid | None = None) -> None:
        """Report the subscription to the recorder, and send retained messages; call it after ``visible``.

        ``handling`` as in MQTT 5.0, 3.8.3.1; ``again``: the client had the subscription at another node.
        """
        self.client.subscribed(self.filter, self.qos)
        if not self.filter.startswith("$share/") and (handling == 0 or (handling == 1 and not again)):
            self._broker.runtime.spawn(self._send_retained, label="gateway_retained", link_to=link_to)

    def deliver(self, message: Message, delivery: Any) -> None:
        """Take a message from the router."""
        retain = message.retain and delivery.retain_as_published
        self.put(message, min(message.qos, delivery.qos), retain)

    def put(self, message: Message, qos: int, retain: bool, *, stored: bool = False) -> None:
        """Queue a message for the client, or drop it; ``stored``: it is a retained message."""
        if self.closed:
            return
        size = len(message.payload)
        if not self._fits(size, FAR if qos else 1):
            self.dropped += 1
            self._lost += qos > 0
            self.client.lost(message.id, "queue_full")
            if not self._queue:
                self._schedule()
            return
        self._bytes += size
        message_id = message.id
        waiting = _Waiting(
            *(message.topic.decode(), bytes(message.payload), qos, retain, message.expires_at, self._lost),
            *(message_id, self.client.share(message_id), stored),
        )
        self._lost = 0
        self._queue.append(waiting)
        if self._sent - self._taken < self._window:
            self._schedule()
        if self._long():
            self._room.clear()
            if qos:
                self._weigh()

    def taken(self, count: int) -> None:
        """Note that the client has taken ``count`` messages in all, and send more."""
        # A wrong count would widen the window, or close it forever.
        self._taken = max(self._taken, min(count, self._sent))
        self.delivered += 1
        self.client.taken(self._taken)
        self.flush()

    def flush(self) -> None:
        """Send messages as far as the window goes."""
        self._scheduled = False
        if self.closed:
            return
        queue = self._queue
        while queue and self._sent - self._taken < self._window:
            lost = queue[0].lost
            batch = self._batch()
            if batch or lost:
                self._emit(batch, self.dropped, lost)
        if self._lost and not queue:
            # No message follows that would carry the number.
            lost, self._lost = self._lost, 0
            self._emit([], self.dropped, lost)
        self._relieve()

    def close(self, why: str) -> None:
        """Unsubscribe, drop the queue, and release waiting publishers; a second call has no effect."""
        if self.closed:
            return
        self.closed = True
        for item in self._queue:
            self.client.lost(item.message_id, "session_ended")
        self._queue.clear()
        self._bytes = 0
        self._relieve()
        self._broker.router.unsubscribe_all(self)
        self.client.close(why)

    def _batch(self) -> list[list[object]]:
        """Take the messages to send together from the queue, up to the next gap of lost ones."""
        queue, left = self._queue, self._window - (self._sent - self._taken)
        batch: list[list[object]] = []
        size = 0
        first = True
        while queue and size < BATCH_BYTES and len(batch) < left and (first or not queue[0].lost):
            item = queue.popleft()
            first = False
            self._bytes -= len(item.payload)
            if item.expires_at is None or item.expires_at > self._broker.fanout.now():
                size += len(item.payload)
                batch.append([item.topic, item.payload, item.qos, item.retain])
                if is_recorded(item.message_id):
                    place = self._sent + len(batch) if self._acknowledges else 0
                    self.client.sent(item.message_id, item.qos, item.retain, item.share, item.stored, place)
            else:
                self.client.lost(item.message_id, "expired")
        self._sent += len(batch)
        return batch

    def _fits(self, size: int, times: int) -> bool:
        return len(self._queue) < self._max_queued * times and self._bytes + size <= self._max_bytes * times

    def _weigh(self) -> None:
        """Pause publishers if the queue has become too long."""
        fill = max(len(self._queue) / self._max_queued, self._bytes / self._max_bytes)
        if fill * 2 >= 1 and not self.behind:
            self._pressure.congest(self)
        if fill >= 1 and not self._far:
            self._far = True
            self._pressure.flood(self)

    def _long(self) -> bool:
        return len(self._queue) * 4 > self._max_queued or self._bytes * 4 > self._max_bytes

    def _relieve(self) -> None:
        if not self._long():
            self._room.set()
            if self.behind:
                self._far = False
                self._pressure.relieve(self)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._broker.runtime.loop.call_soon(self.flush)

    async def _send_retained(self) -> None:
        """Run as a process: queue the retained messages that match the filter."""
        store = self._broker.retained
        far: list[str] = []
        for number, topic in enumerate(store.topics(body_of(self.filter)), 1):
            found = store.get(topic)
            if isinstance(found, Message):
                self.put(found, min(self.qos, found.qos), True, stored=True)
            elif found is not None:
                far.append(topic)
            if number % STEP == 0:
                await asyncio.sleep(0)
            await self._room.wait()
            if self.closed:
                return
        waiting = iter(far)

        async def fetch() -> None:
            for topic in waiting:
                found = store.get(topic)
                if found is not None and not isinstance(found, Message):
                    found = await found()
                await self._room.wait()
                if found is not None:
                    self.put(found, min(self.qos, found.qos), True, stored=True)

        await asyncio.gather(*(fetch() for _ in range(min(FETCHES, len(far)))))
