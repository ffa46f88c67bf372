"""A Python client: a hidden node that is attached to one node of the cluster and follows when that one dies.

It has a runtime of its own, a link to the node it is attached to, and one to every other node whose actors it
calls. Membership does not know it.

Rules: 1. One supervised process, the *keeper*, attaches: it tries the given addresses in turn, for ever, and
starts again when the attachment ends.  2. Publishing and subscribing wait for an attachment, a bounded time.
A publish of QoS 1 or 2 whose node died is tried again at the next, so it may arrive twice and is not lost.
3. Calls and monitors of actors are not tried again: who was asked may have done it. They end with
``noconnection``.  4. A node whose port refuses, or that answers no ping, is dead to this client at once: it
takes part in no failure detector and has no verdicts to wait for.

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
from typing import Any, Self

import structlog

from gossamer.client.errors import NotAttachedError, RefusedError, TargetError
from gossamer.client.subscription import OnGap, Subscription
from gossamer.client.targets import Target, targets_of
from gossamer.distribution import (
    Distribution,
    GrpcTransport,
    LinkTransport,
    RemoteProcesses,
    connect_node,
    identify,
)
from gossamer.errors import GossamerError
from gossamer.gateway import (
    GATEWAY,
    Attach,
    Deliveries,
    Find,
    Gone,
    Ping,
    Publish,
    Refused,
    Subscribe,
    Taken,
    Unsubscribe,
    Whereabouts,
)
from gossamer.network import Address
from gossamer.routes import parse_filter, parse_name
from gossamer.supervisor import (
    CallFailed,
    ChildSpec,
    Destination,
    Down,
    Pid,
    Reason,
    Runtime,
    Supervisor,
    monitor,
    receive,
    self_pid,
    spawn_link,
)

__all__ = ["Client"]

log = structlog.get_logger(__name__)

PING_INTERVAL = 2.0
PING_TIMEOUT = 5.0
RETRY = 0.2
LINK_WAIT = 5.0
QOS0_RUN = 128
"""QoS 0 publishes after which one waits for its answer, so that a fast publisher cannot outrun the link."""


class Client:
    """``async with Client(["127.0.0.1:4370"], cookie=...) as client``; see the module.

    ``targets``: addresses of distribution ports, or the path of a ``cluster.json`` with its cookie beside it.
    ``timeout`` bounds every wait for an attachment, in seconds.
    """

    def __init__(
        self,
        targets: Target | Iterable[Target],
        *,
        cookie: str | None = None,
        env: str = "gossamer",
        timeout: float = 10.0,
        name: str | None = None,
        transport: LinkTransport | None = None,
    ) -> None:
        self._targets, beside = targets_of(targets)
        cookie = cookie or beside
        if not cookie:
            raise TargetError(
                got="no cookie",
                expected="cookie=..., the cluster's own, or a cluster.json with one beside it",
            )
        self._timeout = timeout
        self.name = name or f"client-{secrets.token_hex(6)}@{socket.gethostname()}"
        self.runtime = Runtime(self.name, creation=1)
        self.distribution = Distribution(
            self.runtime,
            transport or GrpcTransport(),
            cookie=cookie,
            env=env,
            evidence=self._evidence,
            hidden=True,
        )
        RemoteProcesses(self.distribution)
        self._subscriptions: dict[int, Subscription] = {}
        self._numbers = 0
        self._published = 0
        self._attachment: Pid | None = None
        self._attached = asyncio.Event()
        self._last = ""
        self._was = ""
        self._next_target = 0

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start, and come back once attached.

        Raises:
            NotAttachedError: to nobody within the time limit; nothing is left running.
        """
        children = [self.distribution.child_spec(), ChildSpec("keeper", self._start_keeper)]
        try:
            await self.runtime.start(Supervisor, children, intensity=10, period=10.0, label="client")
            await self._where()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End everything."""
        for subscription in list(self._subscriptions.values()):
            subscription.close()
        await self.runtime.stop()

    @property
    def attached_to(self) -> str | None:
        """The name of the node, None while there is none."""
        return None if self._attachment is None else self._attachment.node

    # -- messages

    async def publish(self, topic: str, payload: bytes | str, qos: int = 0, *, retain: bool = False) -> None:
        """Publish; with QoS 1 or 2 come back once every node that must deliver it has it.

        Raises:
            InvalidTopicName: it is no topic name.
            RefusedError: the node will not take it.
            NotAttachedError: there was no node in time.
        """
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        order = Publish(parse_name(topic), data, qos, retain)
        if qos == 0:
            self._published += 1
            if self._published % QOS0_RUN:
                self.runtime.cast(await self._where(), order)
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
        await self._where()
        self._subscriptions[number] = made
        try:
            order = Subscribe(number, topic_filter, qos, retain_handling)
            await self._ask(f"subscribe to {topic_filter!r}", order)
        except BaseException:
            self._subscriptions.pop(number, None)
            raise
        made.lives()
        return made

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

    async def _where(self, deadline: float | None = None) -> Pid:
        """The attachment, once there is one."""
        try:
            async with asyncio.timeout_at(deadline or self.runtime.loop.time() + self._timeout):
                while self._attachment is None:
                    await self._attached.wait()
                return self._attachment
        except TimeoutError:
            tried = ", ".join(f"{host}:{port}" for host, port in self._targets)
            raise NotAttachedError(waited=self._timeout, tried=tried, last=self._last) from None

    async def _ask(self, what: str, order: object) -> None:
        """Call the attachment; when its node goes meanwhile, the next."""
        deadline = self.runtime.loop.time() + self._timeout
        while True:
            where = await self._where(deadline)
            left = max(0.001, deadline - self.runtime.loop.time())
            try:
                answer = await self.runtime.call(where, order, left)
            except CallFailed as failure:
                if failure.reason == "timeout":
                    raise
                self._last = f"{what}: {failure.reason}"
                if isinstance(order, Subscribe) and self._attachment != where:
                    # The keeper subscribes it wherever it attaches.
                    await self._where(deadline)
                    return
                await asyncio.sleep(RETRY)
                continue
            if isinstance(answer, Refused):
                if isinstance(order, Subscribe) and "is there already" in answer.reason:
                    return
                raise RefusedError(what=what, reason=answer.reason)
            return

    async def _reach(self, destination: Destination) -> Destination:
        """A destination on a node that is linked, as far as that can be had."""
        here = await self._where()
        if isinstance(destination, str):
            return (destination, here.node)
        node = destination.node if isinstance(destination, Pid) else destination[1]
        if node in (here.node, self.name) or node in self.distribution.nodes():
            return destination
        with contextlib.suppress(CallFailed):
            found = await self.runtime.call(here, Find(node))
            if isinstance(found, Whereabouts):
                self.distribution.connect(node, found.creation, (found.host, found.port))
                await self.runtime.run(connect_node, node, LINK_WAIT)
        return destination

    def _taken(self, number: int, count: int) -> None:
        if self._attachment is not None:
            self.runtime.cast(self._attachment, Taken(number, count))

    def _close(self, number: int) -> None:
        if self._subscriptions.pop(number, None) is not None and self._attachment is not None:
            attachment = self._attachment

            async def tell() -> None:
                with contextlib.suppress(CallFailed):
                    await self.runtime.call(attachment, Unsubscribe(number))

            self.runtime.spawn(tell, label="unsubscribe")

    def _evidence(self, name: str, kind: str) -> None:
        if kind == "refused":
            self.distribution.disconnect(name, "refused")

    # -- the keeper

    async def _start_keeper(self) -> Pid:
        return spawn_link(self._keep, name="keeper", label="keeper")

    async def _keep(self) -> None:
        self._lose()
        try:
            while True:
                address = self._targets[self._next_target % len(self._targets)]
                try:
                    attachment = await self._attach(address)
                except (GossamerError, TimeoutError) as error:
                    self._next_target += 1
                    if str(error) != self._last:
                        log.info("attach_failed", address=f"{address[0]}:{address[1]}", error=str(error))
                    self._last = str(error)
                    await asyncio.sleep(RETRY)
                    continue
                await self._serve(attachment)
                self._lose()
                self._next_target += 1
        finally:
            self._lose()

    def _lose(self) -> None:
        self._attachment = None
        self._attached.clear()

    async def _attach(self, address: Address) -> Pid:
        hub = self.distribution
        name, creation = await identify(hub, address)
        hub.connect(name, creation, address)
        if not await connect_node(name, LINK_WAIT):
            hub.disconnect(name, "not up in time")
            raise NotAttachedError(
                waited=LINK_WAIT, tried=name, last="the link did not open; see the node's log"
            )
        me = self_pid()
        attachment = await self.runtime.call((GATEWAY, name), Attach(me))
        if not isinstance(attachment, Pid):
            raise RefusedError(
                what=f"attach to {name}", reason=getattr(attachment, "reason", "no attachment")
            )
        for one in list(self._subscriptions.values()):
            one.moved(self._was)
            order = Subscribe(one.number, one.filter, one.qos, one.retain, again=one.began)
            answer = await self.runtime.call(attachment, order)
            if isinstance(answer, Refused):
                raise RefusedError(what=f"subscribe to {one.filter!r} again", reason=answer.reason)
            one.lives()
        self._attachment = attachment
        self._was = name
        self._attached.set()
        log.info("attached", node=name)
        return attachment

    async def _serve(self, attachment: Pid) -> None:
        """Until the attachment ends."""
        ref = monitor(attachment)
        pinger = spawn_link(self._ping, attachment, label="pinger")
        try:
            while True:
                match await receive():
                    case Deliveries(source, number, messages, dropped, lost) if source == attachment:
                        subscription = self._subscriptions.get(number)
                        if subscription is not None:
                            subscription.feed(messages, dropped, lost)
                    case Down(ref=gone, reason=reason) if gone == ref:
                        self._last = f"{attachment.node}: {reason}"
                        log.info("detached", node=attachment.node, reason=str(reason))
                        return
                    case Gone(node):
                        self.distribution.disconnect(node, "down")
        finally:
            self.runtime.exit(pinger, "kill") if self.runtime.alive(pinger) else None

    async def _ping(self, attachment: Pid) -> None:
        while True:
            await asyncio.sleep(PING_INTERVAL)
            try:
                await self.runtime.call(attachment, Ping(), PING_TIMEOUT)
            except CallFailed:
                self.distribution.disconnect(attachment.node, "silent")
                return
