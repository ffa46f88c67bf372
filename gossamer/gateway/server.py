"""The gateway of a node: one supervised attachment for each client, between its link and the broker.

::

    gateway (rest_for_one)
    ├── attachments     dynamic; one process for each client, temporary
    └── gateway         the registered name that clients call

An attachment ends with its client: it monitors the client's process, and stops when it gets no request, not
even a :class:`~gossamer.gateway.messages.Ping`, for :data:`SILENCE` seconds. Its subscriptions end with it.

A publish by call is answered once every node that must deliver the message has it, and once no receiver here
is behind (:mod:`~gossamer.gateway.remote_client`).
"""

from __future__ import annotations

from functools import partial

import structlog
from msgspec.structs import replace

from gossamer.distribution import Distribution, Event, NodeDown
from gossamer.errors import GossamerError
from gossamer.gateway.messages import (
    GATEWAY,
    WINDOW,
    Attach,
    Deliveries,
    Find,
    Gone,
    Ping,
    Publish,
    QueueConsume,
    QueuePublish,
    QueueSettle,
    Refused,
    Subscribe,
    Taken,
    Unsubscribe,
    Whereabouts,
)
from gossamer.gateway.queues import RemoteConsumers, ignore
from gossamer.gateway.remote_client import Publisher, RemoteClient, bounded, publish
from gossamer.gateway.subscription import RemoteSubscription
from gossamer.mqtt import Broker
from gossamer.supervisor import (
    Caller,
    ChildSpec,
    Down,
    DynamicSupervisor,
    Exit,
    GenServer,
    NoReply,
    Pid,
    Reply,
    Stop,
    Supervisor,
    describe,
    monitor,
    reply,
    send_after,
    trap_exit,
)

log = structlog.get_logger(__name__)

ATTACHMENTS = "gateway_attachments"
SILENCE = 15.0
"""Seconds without a request after which a client is disconnected."""
MAX_CLIENTS = 1000
MAX_SUBSCRIPTIONS = 1000
_CHECK = "check"


class Attachment(GenServer):
    """Serves one client."""

    async def init(self, client: Pid, broker: Broker, distribution: Distribution) -> None:
        trap_exit()
        self._client = client
        self._broker = broker
        self._distribution = distribution
        self._subscriptions: dict[int, RemoteSubscription] = {}
        self._remote = RemoteClient(broker.fanout, str(client))
        self._publisher = Publisher(broker)
        self._runtime = self.process.runtime
        self._queues = RemoteConsumers(broker.queues, client, self.process.pid, self._runtime)
        self._seen = self._runtime.loop.time()
        monitor(client)
        distribution.subscribe(self._event)
        # Not in terminate, which a kill would skip.
        self.process.on_release(lambda entry: self._release(describe(entry.reason)))
        send_after(SILENCE / 3, self.process.pid, _CHECK)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        self._seen = self._runtime.loop.time()
        match request:
            case Ping():
                return Reply(True)
            case Publish():
                return self._publish(request, caller)
            case Subscribe():
                return Reply(await self._subscribe(request))
            case Unsubscribe(number):
                self._close(number, "unsubscribed")
                return Reply(True)
            case Find(node):
                return Reply(self._find(node))
            case QueuePublish() | QueueConsume() | QueueSettle():
                self._queues.ask(request, partial(reply, caller))
                return NoReply()
        return Reply(Refused(f"got {type(request).__name__}; expected a message of the gateway"))

    async def handle_cast(self, request: object) -> None:
        self._seen = self._runtime.loop.time()
        if isinstance(request, Taken):
            subscription = self._subscriptions.get(request.number)
            if subscription is not None:
                subscription.taken(request.count)
        elif isinstance(request, QueueSettle):
            self._queues.ask(request, ignore)
        elif isinstance(request, Publish):
            try:
                publish(self._broker, self._remote, replace(request, qos=0))
            except (GossamerError, UnicodeError) as error:
                log.info("publish_refused", client=str(self._client), error=str(error))

    async def handle_info(self, message: object) -> Stop | None:
        if isinstance(message, Down):
            return Stop("normal")
        if isinstance(message, Exit) and message.reason != "normal":
            # The process that sends retained messages failed: the client attaches again, and gets them.
            return Stop(message.reason)
        if message == _CHECK:
            if self._runtime.loop.time() - self._seen > SILENCE:
                log.warning("client_silent", client=str(self._client), seconds=SILENCE)
                self._distribution.disconnect(self._client.node, "silent")
                return Stop("normal")
            send_after(SILENCE / 3, self.process.pid, _CHECK)
        return None

    def _publish(self, wanted: Publish, caller: Caller) -> Reply | NoReply:
        def safe(done: bool) -> None:
            answer = True if done else Refused("the link to a node that needs it overflowed")
            self._publisher.published(wanted.topic, lambda: reply(caller, answer))

        try:
            publish(self._broker, self._remote, wanted, safe)
        except (GossamerError, UnicodeError) as error:
            return Reply(Refused(str(error)))
        if not bounded(wanted.qos):
            safe(True)
        return NoReply()

    async def _subscribe(self, wanted: Subscribe) -> object:
        if wanted.number in self._subscriptions:
            return Refused(f"subscription {wanted.number} is there already")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            return Refused(f"one client may have {MAX_SUBSCRIPTIONS} subscriptions")
        client, me, number = self._client, self.process.pid, wanted.number

        def emit(messages: list[list[object]], dropped: int, lost: int) -> None:
            self._runtime.send(client, Deliveries(me, number, messages, dropped, lost))

        subscription = RemoteSubscription(
            *(self._broker, f"{client}/{number}", wanted.filter, wanted.qos),
            emit=emit,
            owner=self._publisher,
            window=WINDOW,
        )
        try:
            seq = subscription.open()
        except GossamerError as error:
            return Refused(str(error))
        self._subscriptions[number] = subscription
        await self._broker.router.visible(seq)
        subscription.begin(wanted.retain, again=wanted.again, link_to=me)
        return True

    def _find(self, node: str) -> Whereabouts | None:
        peer = self._distribution.peers.get(node)
        if peer is None or peer.hidden or not peer.up:
            return None
        return Whereabouts(peer.creation, peer.address[0], peer.address[1])

    def _event(self, event: Event) -> None:
        if isinstance(event, NodeDown):
            self._runtime.send(self._client, Gone(event.name))

    def _close(self, number: int, why: str) -> None:
        self._queues.close(number)
        subscription = self._subscriptions.pop(number, None)
        if subscription is not None:
            subscription.close(why)

    def _release(self, why: str) -> None:
        self._distribution.unsubscribe(self._event)
        self._queues.close()
        for number in list(self._subscriptions):
            self._close(number, why)
        self._remote.close(why)


class Gateway(GenServer):
    """Starts an attachment for each client."""

    async def init(self, broker: Broker, distribution: Distribution) -> None:
        self._parts = (broker, distribution)

    async def handle_call(self, request: object, caller: Caller) -> Reply:
        if not isinstance(request, Attach):
            return Reply(Refused(f"got {type(request).__name__}; expected an Attach"))
        start = partial(Attachment.start_link, request.client, *self._parts, label=f"for {request.client}")
        spec = ChildSpec(f"client {request.client}", start, restart="temporary", shutdown=1.0)
        try:
            pid = await DynamicSupervisor.start_child(ATTACHMENTS, spec)
        except GossamerError as error:
            return Reply(Refused(str(error)))
        log.info("client_attached", client=str(request.client))
        return Reply(pid)


def gateway_spec(broker: Broker, distribution: Distribution) -> ChildSpec:
    """Return the gateway as one child of a node."""
    attachments = partial(DynamicSupervisor.start_link, max_children=MAX_CLIENTS, name=ATTACHMENTS)
    children = [
        ChildSpec("attachments", attachments, type="supervisor"),
        ChildSpec("gateway", partial(Gateway.start_link, broker, distribution, name=GATEWAY, label=GATEWAY)),
    ]
    start = partial(Supervisor.start_link, children, "rest_for_one", label="gateway")
    return ChildSpec("gateway", start, type="supervisor")
