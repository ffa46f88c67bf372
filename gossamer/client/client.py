"""A Python client: a hidden node that is attached to one node of the cluster and follows when that one dies.

It has a runtime of its own, a link to the node it is attached to, and one to every other node whose actors it
calls. Membership does not know it. Who attaches, and again, is the keeper (:mod:`~gossamer.client.keeper`).

Rules: 1. Publishing and subscribing wait for an attachment, a bounded time. A publish of QoS 1 or 2 whose
node died is tried again at the next, so it may arrive twice and is not lost.  2. Calls and monitors of actors
are not tried again: who was asked may have done it. They end with ``noconnection``.

It opens every connection itself and listens nowhere: behind a firewall or a translated address it works as
anywhere else, as long as it reaches the nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Literal, Self

from gossamer.client.keeper import (
    LINK_TIMEOUT,
    RETRY_INTERVAL,
    Keeper,
    RefusedError,
    Target,
    TargetError,
    targets_of,
)
from gossamer.client.queue import ClientQueue, QueueConsumer
from gossamer.client.subscription import OnGap, Subscription
from gossamer.config import LinkTlsConfig
from gossamer.distribution import (
    Distribution,
    GrpcTransport,
    LinkCertificates,
    LinkTransport,
    RemoteProcesses,
    StreamTransport,
    connect_node,
)
from gossamer.gateway import (
    Find,
    Publish,
    Refused,
    Subscribe,
    Taken,
    Unsubscribe,
    Whereabouts,
)
from gossamer.network import SystemNetwork
from gossamer.routes import parse_filter, parse_name
from gossamer.supervisor import (
    CallFailed,
    Destination,
    Down,
    Pid,
    Reason,
    Runtime,
    Supervisor,
    monitor,
    receive,
)

QOS0_RUN = 128
"""QoS 0 publishes after which one waits for its answer, so that a fast publisher cannot outrun the link."""


class Client:
    """``async with Client(["127.0.0.1:4370"], cookie=...) as client``; see the module.

    ``targets``: addresses of distribution ports, or the path of a ``cluster.json`` with its cookie beside it.
    ``timeout`` bounds every wait for an attachment, in seconds. ``transport`` and ``tls`` are as in
    ``distribution`` of the nodes. With ``tls`` the certificate must fit ``name``, as that of a node does; it
    is read again whenever the client attaches. Reading it blocks, and raises a ``UsageError`` if it fails.
    """

    def __init__(
        self,
        targets: Target | Iterable[Target],
        *,
        cookie: str | None = None,
        env: str = "gossamer",
        timeout: float = 10.0,
        name: str | None = None,
        transport: LinkTransport | Literal["grpc", "tcp"] = "grpc",
        tls: LinkTlsConfig | None = None,
    ) -> None:
        self._targets, beside = targets_of(targets)
        cookie = cookie or beside
        if not cookie:
            raise TargetError(
                got="no cookie",
                expected="cookie=..., the cluster's own, or a cluster.json with one beside it",
            )
        self._timeout = timeout
        certificates = None if tls is None else LinkCertificates(tls)
        # Nodes let it in by a name that its certificate fits.
        fitting = certificates and certificates.identity.names.node(f"client-{secrets.token_hex(6)}")
        self.name = name or fitting or f"client-{secrets.token_hex(6)}@{socket.gethostname()}"
        if transport == "grpc":
            transport = GrpcTransport(certificates=certificates)
        elif transport == "tcp":
            transport = StreamTransport(SystemNetwork(), certificates=certificates)
        self.runtime = Runtime(self.name, creation=1)
        self.distribution = Distribution(
            self.runtime,
            transport,
            cookie=cookie,
            env=env,
            hidden=True,
        )
        RemoteProcesses(self.distribution)
        self._subscriptions: dict[int, Subscription] = {}
        self._consumers: dict[int, QueueConsumer] = {}
        self._numbers = 0
        self._published = 0
        self._keeper = Keeper(
            self.distribution,
            self._targets,
            self._subscriptions,
            self._consumers,
            certificates,
            timeout=timeout,
        )

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start, and return once attached.

        Raises:
            NotAttachedError: there was no node within the timeout; nothing is left running.
        """
        children = [self.distribution.child_spec(), self._keeper.child_spec()]
        try:
            await self.runtime.start(Supervisor, children, intensity=10, period=10.0, label="client")
            await self._keeper.where()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End everything."""
        for subscription in list(self._subscriptions.values()):
            subscription.close()
        for consumer in list(self._consumers.values()):
            consumer.close()
        await self.runtime.stop()

    @property
    def attached_to(self) -> str | None:
        """The name of the node, None while there is none."""
        return None if self._keeper.attachment is None else self._keeper.attachment.node

    # -- messages

    async def publish(self, topic: str, payload: bytes | str, qos: int = 0, *, retain: bool = False) -> None:
        """Publish; with QoS 1 or 2 come back once every node that must deliver it has it.

        Raises:
            InvalidTopicName: it is no topic name.
            RefusedError: the node will not take it.
            NotAttachedError: there was no node in time.
            CallTimeout: the node did not say in time that it is safe; it may well become so.
        """
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        order = Publish(parse_name(topic), data, qos, retain)
        if qos == 0:
            self._published += 1
            if self._published % QOS0_RUN:
                self.runtime.cast(await self._keeper.where(), order)
                return
        await self._ask(f"publish to {topic!r}", order)

    async def subscribe(
        self, topic_filter: str, qos: int = 0, *, retain_handling: int = 0, on_gap: OnGap | None = None
    ) -> Subscription:
        """Subscribe; come back once every live node knows. Iterate over what comes, ``close()`` when done.

        ``retain_handling`` as in MQTT 5.0: 0 sends what is retained, again whenever the client has moved to
        another node; 1 only at first; 2 never. ``on_gap`` is called with every :class:`Gap`, on the loop.

        Raises:
            InvalidTopicFilter: it is no topic filter.
            RefusedError: the node will not have it.
            NotAttachedError: there was no node in time.
        """
        parse_filter(topic_filter)
        self._numbers += 1
        number = self._numbers
        made = Subscription(
            number,
            topic_filter,
            qos,
            retain=retain_handling,
            on_gap=on_gap,
            taken=self._taken,
            close=self._close,
        )
        await self._keeper.where()
        self._subscriptions[number] = made
        try:
            order = Subscribe(number, topic_filter, qos, retain_handling)
            await self._ask(f"subscribe to {topic_filter!r}", order, made)
        except BaseException:
            self._subscriptions.pop(number, None)
            raise
        made.lives()
        return made

    def queue(self, name: str) -> ClientQueue:
        """Return a queue, to publish into and to consume; nothing is asked of a node yet."""
        return ClientQueue(name, self._keeper, self.runtime, open=self._open_consumer, close=self._close)

    # -- actors

    async def call(self, destination: Destination, request: object, timeout: float | None = 5.0) -> Any:
        """Call an actor by pid, by ``(name, node)``, or by its name on the node of the attachment.

        Raises:
            CallFailed, CallTimeout: as for any call between nodes.
        """
        target = await self._reach(destination)
        try:
            return await self.runtime.call(target, request, timeout)
        except CallFailed:
            # A call that fails at once has let nobody run; who tries again in a loop must let the keeper.
            await asyncio.sleep(0)
            raise

    async def cast(self, destination: Destination, request: object) -> None:
        """Send a request that wants no answer."""
        self.runtime.cast(await self._reach(destination), request)

    async def send(self, destination: Destination, message: object) -> bool:
        """Send a message; False when it is known not to arrive."""
        return self.runtime.send(await self._reach(destination), message)

    async def monitor(self, destination: Destination) -> asyncio.Future[Reason]:
        """Watch an actor: a future of the reason with which it ends, ``noconnection`` with its node."""
        target = await self._reach(destination)
        ended: asyncio.Future[Reason] = self.runtime.loop.create_future()
        watching = asyncio.Event()

        async def body() -> None:
            ref = monitor(target)
            watching.set()
            down = await receive(match=lambda message: isinstance(message, Down) and message.ref == ref)
            if not ended.done():
                ended.set_result(down.reason)

        pid = self.runtime.spawn(body, label=f"monitor of {target}")
        ended.add_done_callback(lambda _: self.runtime.exit(pid, "kill"))
        # What is sent to the actor after this comes to it after the watch began.
        await watching.wait()
        return ended

    # -- inside

    async def _ask(self, what: str, order: object, made: Subscription | None = None) -> None:
        """Call the attachment; when its node goes meanwhile, the next, which the keeper gave ``made``."""
        deadline = self.runtime.loop.time() + self._timeout
        while True:
            where = await self._keeper.where(deadline)
            if made is not None and made.live:
                return
            left = max(0.001, deadline - self.runtime.loop.time())
            try:
                answer = await self.runtime.call(where, order, left)
            except CallFailed as failure:
                if failure.reason == "timeout":
                    raise
                self._keeper.last = f"{what}: {failure.reason}"
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            if isinstance(answer, Refused):
                raise RefusedError(what=what, reason=answer.reason)
            return

    async def _reach(self, destination: Destination) -> Destination:
        """A destination on a node that is linked, as far as that can be had."""
        here = await self._keeper.where()
        if isinstance(destination, str):
            return (destination, here.node)
        node = destination.node if isinstance(destination, Pid) else destination[1]
        if node in (here.node, self.name) or node in self.distribution.nodes():
            return destination
        with contextlib.suppress(CallFailed):
            found = await self.runtime.call(here, Find(node))
            if isinstance(found, Whereabouts):
                self.distribution.connect(node, found.creation, (found.host, found.port))
                await self.runtime.run(connect_node, node, LINK_TIMEOUT)
        return destination

    def _open_consumer(self, consumer: QueueConsumer) -> int:
        self._numbers += 1
        self._consumers[self._numbers] = consumer
        return self._numbers

    def _taken(self, number: int, count: int) -> None:
        if self._keeper.attachment is not None:
            self.runtime.cast(self._keeper.attachment, Taken(number, count))

    def _close(self, number: int) -> None:
        attachment = self._keeper.attachment
        known = self._subscriptions.pop(number, None) or self._consumers.pop(number, None)
        if known is not None and attachment is not None:

            async def tell() -> None:
                with contextlib.suppress(CallFailed):
                    await self.runtime.call(attachment, Unsubscribe(number))

            self.runtime.spawn(tell, label="unsubscribe")
