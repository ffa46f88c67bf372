"""Keeper of a client's attachment: one supervised process that tries the given nodes in turn, for ever.

Rules: 1. When an attachment ends, the next node is tried; subscriptions move with it, and are told.  2. A
node whose port refuses, or that answers no ping, is dead to this client at once: it takes part in no failure
detector and has no verdicts to wait for.  3. A subscription that the next node will not have is a reason to
try another one: it must not end in silence.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from gossamer.client.subscription import Subscription
from gossamer.distribution import Distribution, LinkCertificates, connect_node, identify
from gossamer.errors import GossamerError, UnavailableError, UsageError
from gossamer.gateway import GATEWAY, Attach, Deliveries, Gone, Ping, QueueGiven, Refused, Subscribe
from gossamer.network import Address
from gossamer.supervisor import (
    CallFailed,
    ChildSpec,
    Down,
    Pid,
    monitor,
    receive,
    self_pid,
    spawn_link,
    unlink,
)

log = structlog.get_logger(__name__)

PING_INTERVAL = 2.0
PING_TIMEOUT = 5.0
RETRY_INTERVAL = 0.2
LINK_TIMEOUT = 5.0


class RefusedError(UsageError):
    """The node refused the request."""

    def __init__(self, *, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what}: {reason}")


class NotAttachedError(UnavailableError):
    """The client is attached to no node now."""

    def __init__(self, *, waited: float, tried: str, last: str) -> None:
        self.waited = waited
        self.tried = tried
        self.last = last
        super().__init__(
            f"attached to no node within {waited:g} s; tried {tried}, last: {last or 'no answer'}; "
            "it is tried again, check that a node runs there and that the cookie is its cookie"
        )


class Consumer(Protocol):
    """Consumer of a queue, which begins again at each attachment."""

    def feed(self, given: QueueGiven) -> None: ...

    def moved(self) -> None: ...


class Keeper:
    """The attachment of one client, now and the next. ``subscriptions`` and ``consumers`` are the client's
    own, by number."""

    def __init__(
        self,
        distribution: Distribution,
        targets: Sequence[Address],
        subscriptions: Mapping[int, Subscription],
        consumers: Mapping[int, Consumer],
        certificates: LinkCertificates | None = None,
        *,
        timeout: float,
    ) -> None:
        self._distribution = distribution
        self._runtime = distribution.runtime
        self._targets = targets
        self._subscriptions = subscriptions
        self._consumers = consumers
        self._certificates = certificates
        self.timeout = timeout
        self._attached = asyncio.Event()
        self._was = ""
        self._next_target = 0
        self._problems: dict[Address, str] = {}
        self.attachment: Pid | None = None
        """The process that everything goes to; None while there is no node."""
        self.last = ""
        """The latest problem."""
        distribution.evidence = self._evidence

    def child_spec(self) -> ChildSpec:
        """The process, for the client's supervisor."""
        return ChildSpec("keeper", self._start_keeper)

    async def where(self, deadline: float | None = None) -> Pid:
        """The attachment, once there is one."""
        try:
            async with asyncio.timeout_at(deadline or self._runtime.loop.time() + self.timeout):
                while self.attachment is None:
                    await self._attached.wait()
                return self.attachment
        except TimeoutError:
            tried = ", ".join(f"{host}:{port}" for host, port in self._targets)
            seen = [f"{host}:{port}: {why}" for (host, port), why in self._problems.items()]
            raise NotAttachedError(
                waited=self.timeout, tried=tried, last="; ".join(seen) or self.last
            ) from None

    def _evidence(self, name: str, kind: str) -> None:
        if kind == "refused":
            self._distribution.disconnect(name, "refused")

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
                    problem = str(error) or "no answer in time"
                    if problem != self._problems.get(address):
                        log.info("attach_failed", address=f"{address[0]}:{address[1]}", error=problem)
                    self._problems[address] = problem
                    await asyncio.sleep(RETRY_INTERVAL)
                    continue
                await self._serve(attachment)
                self._lose()
                self._next_target += 1
        finally:
            self._lose()

    def _lose(self) -> None:
        self.attachment = None
        self._attached.clear()
        for one in list(self._consumers.values()):
            one.moved()

    async def _attach(self, address: Address) -> Pid:
        distribution = self._distribution
        if self._certificates is not None:
            await asyncio.to_thread(self._certificates.load)
        name, creation = await identify(distribution, address)
        distribution.connect(name, creation, address)
        if not await connect_node(name, LINK_TIMEOUT):
            distribution.disconnect(name, "not up in time")
            raise NotAttachedError(
                waited=LINK_TIMEOUT, tried=name, last="the link did not open; see the node's log"
            )
        me = self_pid()
        attachment = await self._runtime.call((GATEWAY, name), Attach(me))
        if not isinstance(attachment, Pid):
            raise RefusedError(
                what=f"attach to {name}", reason=getattr(attachment, "reason", "no attachment")
            )
        for one in list(self._subscriptions.values()):
            one.moved(self._was)
            order = Subscribe(one.number, one.filter, one.qos, one.retain, again=one.began)
            answer = await self._runtime.call(attachment, order)
            if isinstance(answer, Refused):
                raise RefusedError(what=f"subscribe to {one.filter!r} again", reason=answer.reason)
            one.lives()
        self.attachment = attachment
        self._was = name
        self._problems.clear()
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
                    case QueueGiven(source, number) as given if source == attachment:
                        consumer = self._consumers.get(number)
                        if consumer is not None:
                            consumer.feed(given)
                    case Down(ref=gone, reason=reason) if gone == ref:
                        self.last = f"{attachment.node}: {reason}"
                        log.info("detached", node=attachment.node, reason=str(reason))
                        return
                    case Gone(node):
                        self._distribution.disconnect(node, "down")
        finally:
            # Not by its link: the keeper goes on.
            unlink(pinger)
            self._runtime.exit(pinger, "kill")

    async def _ping(self, attachment: Pid) -> None:
        while True:
            await asyncio.sleep(PING_INTERVAL)
            try:
                await self._runtime.call(attachment, Ping(), PING_TIMEOUT)
            except CallFailed:
                self._distribution.disconnect(attachment.node, "silent")
                return


Target = str | Path | Address
"""``"host:port"`` of a node's distribution, a pair of them, or the path of a ``cluster.json``."""

_EXPECTED = "host:port of a node's distribution, or the path of a cluster.json"


class TargetError(UsageError):
    """A target that cannot be understood."""

    def __init__(self, *, got: str, expected: str) -> None:
        self.got = got
        self.expected = expected
        super().__init__(f"client: got {got}; expected {expected}")


def targets_of(given: Target | Iterable[Target]) -> tuple[list[Address], str | None]:
    """The addresses, and the cookie where a ``cluster.json`` has one beside it (blocking).

    Raises:
        TargetError: nothing can be made of one of them.
    """
    addresses: list[Address] = []
    cookie: str | None = None
    alone = isinstance(given, str | Path) or (isinstance(given, tuple) and _is_address(given))
    for target in [given] if alone else given:  # type: ignore[union-attr]
        if isinstance(target, tuple):
            addresses.append(target)
        elif isinstance(target, Path) or str(target).endswith(".json"):
            found, cookie = _read(Path(target))  # type: ignore[arg-type]
            addresses += found
        else:
            addresses.append(_parse(str(target)))
    if not addresses:
        raise TargetError(got="nothing to attach to", expected=_EXPECTED)
    return addresses, cookie


def _is_address(value: tuple[object, ...]) -> bool:
    return len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int)


def _parse(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise TargetError(got=repr(text), expected=_EXPECTED)
    return host.strip("[]"), int(port)


def _read(path: Path) -> tuple[list[Address], str | None]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        addresses = [
            (node["name"].rpartition("@")[2], int(node["ports"]["distribution"])) for node in facts["nodes"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TargetError(got=f"{path} ({error})", expected="the cluster.json of a running cluster") from None
    beside = path.parent / ".cookie"
    return addresses, beside.read_text(encoding="ascii").strip() if beside.is_file() else None
