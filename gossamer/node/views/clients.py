"""Clients, subscriptions, retained messages and routes, as the API lists them; and what is published there.

Rules: 1. A walk gives None for each session that is not wanted: who walks counts what was looked at, so that
a rare find among 100,000 does not hold the loop.  2. Rows are made only of what is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal

from gossamer.api import ClientSearch, Key, Listed, ListOrder, TopicRow, Walked
from gossamer.api.model.node import (
    ClientInfo,
    CopyInfo,
    RetainedInfo,
    RouteFindings,
    SubscriptionInfo,
    TopicInfo,
    TopicMatch,
)
from gossamer.basekv import kind_of
from gossamer.errors import WrongValueError
from gossamer.mqtt import Message, MqttProtocolError
from gossamer.node.parts import NodeParts
from gossamer.routes import Findings, matches, parse_filter, parse_name
from gossamer.tenants import DEFAULT, bare, client_within, split, tenant_of, within

SAFE_WAIT = 10.0
"""Seconds that other nodes get to take a message over."""
VERIFY_TIMEOUT = 120.0
"""Seconds a verification of routes may take: about two for each million, and what peers need."""

_VERSIONS: dict[int, Literal["", "3.1", "3.1.1", "5.0"]] = {3: "3.1", 4: "3.1.1", 5: "5.0"}

_NEVER = 1e12
"""Sorts after every time of day, in seconds since 1970."""
_CLIENT_VALUES: dict[str, Callable[[Any], str | float]] = {
    "client": lambda session: split(session.client_id)[1],
    "username": lambda session: session.username or "",
    "address": lambda session: "" if session.channel is None else session.channel.peer,
    "connected_at": lambda session: 0.0 if session.channel is None else session.channel.since,
    "subscriptions": lambda session: len(session.subscriptions),
    "inflight": lambda session: len(session.inflight),
    "queued": lambda session: len(session.queue),
    "dropped": lambda session: session.lost,
}
"""Values of a session in the fields that clients may be sorted by; ``node`` is that of all."""


class ClientsView:
    """The part of :class:`gossamer.api.NodeView` that is about clients and routes."""

    _node: NodeParts
    name: str

    def clients(self, search: ClientSearch, order: ListOrder) -> Iterator[Walked[ClientInfo]]:
        """Every session here that is wanted."""
        node = self.name
        value = _CLIENT_VALUES.get(order.sort or "", lambda _session: node)
        sessions = self._node.broker.sessions
        for inside in list(sessions) if search.client is None else self._inside(search.client, search.tenant):
            session = sessions.get(inside)
            if session is None:
                continue
            channel = session.channel
            tenant, name = split(inside)
            if not search.admits(
                name,
                tenant=tenant,
                connected=channel is not None,
                user=session.username or "",
                address="" if channel is None else channel.peer,
            ):
                yield None
                continue
            yield order.key((name, node, tenant), value(session)), partial(self._client, session)

    def _inside(self, client: str, tenant: str | None) -> list[str]:
        """Return the names inside of a client of one tenant, or of any."""
        if tenant is not None:
            return [client_within("" if tenant == DEFAULT else tenant, client)]
        return [client, *(tenant.client(client) for tenant in self._node.broker.tenants)]

    def _client(self, session: Any) -> ClientInfo:
        channel = session.channel
        tenant, name = split(session.client_id)
        return ClientInfo(
            client=name,
            tenant=tenant,
            connected=channel is not None,
            node=self.name,
            address="" if channel is None else channel.peer,
            version=_VERSIONS.get(session.version, ""),
            username=session.username or "",
            keepalive=0.0 if channel is None else channel.keep_alive,
            clean_start=session.clean,
            session_expiry=session.expiry,
            connected_at=0.0 if channel is None else channel.since,
            subscriptions=len(session.subscriptions),
            inflight=len(session.inflight),
            queued=len(session.queue),
            dropped=session.lost,
            process="" if channel is None else str(channel.pid),
            copied=self._copied(session),
        )

    def _copied(self, session: Any) -> CopyInfo | None:
        copies = self._node.broker.copies
        if copies is None or session.store is None:
            return None
        copy, kind = copies.copy_of(session.client_id), kind_of(copies.range_of(session.client_id))
        if copy is None:
            return CopyInfo(range=kind, state="not_copied")
        clock = self._node.clock
        since = clock.wall() - clock.monotonic() + copy.turned if copy.turned else None
        return CopyInfo(range=kind, state=copy.state, since=since)

    def subscriptions(
        self,
        order: ListOrder,
        *,
        client: str | None = None,
        filter: str | None = None,  # noqa: A002
        search: str = "",
        tenant: str | None = None,
    ) -> Iterator[Walked[SubscriptionInfo]]:
        """Every subscription of every session here; ``search`` is a part of the client or of the filter."""
        sessions, part = self._node.broker.sessions, search.casefold()
        for inside in list(sessions) if client is None else self._inside(client, tenant):
            session = sessions.get(inside)
            owner, name = split(inside)
            if session is None or tenant not in (None, owner or DEFAULT):
                continue
            yield None
            named = part in name.casefold()
            for said, (options, identifier) in list(session.subscriptions.items()):
                wanted = bare(said)
                if filter not in (None, wanted) or not (named or part in wanted.casefold()):
                    continue
                show = partial(
                    SubscriptionInfo,
                    client=name,
                    filter=wanted,
                    node=self.name,
                    tenant=owner,
                    qos=options.qos,
                    no_local=options.no_local,
                    retain_as_published=options.retain_as_published,
                    identifier=identifier,
                )
                values: dict[str, str | float] = {
                    "client": name,
                    "filter": wanted,
                    "qos": options.qos,
                    "node": self.name,
                }
                yield order.key((name, wanted, self.name, owner), values[order.sort or "client"]), show

    def retained(
        self, topic_filter: str, order: ListOrder, tenant: str = ""
    ) -> Iterable[Listed[RetainedInfo]]:
        """The topics of a tenant that match and have a retained message."""
        parse_filter(topic_filter)
        # Held as a list: it changes while it is walked.
        topics = list(self._node.broker.retained.topics(within(tenant, topic_filter)))
        return ((self._retained_key(order, topic), partial(self._retained, topic)) for topic in topics)

    def _retained_key(self, order: ListOrder, topic: str) -> Key:
        if order.sort in (None, "topic"):
            return order.key((topic,), topic)
        value = getattr(self._retained(topic), order.sort)
        if value is None:
            # Never is after all times; an unknown size or QoS is before all that are known.
            return order.key((topic,), _NEVER if order.sort == "expires_at" else 0)
        return order.key((topic,), value + 1)

    def _retained(self, topic: str) -> RetainedInfo:
        message = self._node.broker.retained.get(topic)
        name, owner = bare(topic), tenant_of(topic)
        if not isinstance(message, Message):
            return RetainedInfo(topic=name, tenant=owner)
        left, clock = message.expires_at, self._node.clock
        return RetainedInfo(
            topic=name,
            tenant=owner,
            qos=message.qos,
            bytes=len(message.payload),
            expires_at=None if left is None else clock.wall() + left - clock.monotonic(),
        )

    def topics(self, *, tenant: str | None = None) -> Iterator[TopicRow]:
        """The route table by filter, or a tenant's part of it."""
        # Held as a list: the walk is long and the table changes under it.
        for topic_filter, others, here in list(self._node.router.routes()):
            owner = tenant_of(topic_filter)
            if tenant in (None, owner or DEFAULT):
                nodes = (self.name, *others) if here else tuple(others)
                yield TopicRow(bare(topic_filter), nodes, owner)

    def match(self, topic: str, tenant: str = "") -> TopicMatch:
        """Return where a message of a tenant to ``topic`` would go from here."""
        parse_name(topic)
        route = self._node.router.resolve(within(tenant, topic).encode())
        found = tuple(
            TopicInfo(filter=row.filter, nodes=row.nodes, tenant=row.tenant)
            for row in self.topics(tenant=tenant or DEFAULT)
            if matches(row.filter, topic)
        )
        return TopicMatch(
            topic=topic,
            matches=found,
            nodes=tuple(dict.fromkeys(name for info in found for name in info.nodes)),
            subscribers=len(route.deliveries),
        )

    async def verify_routes(self, *, repair: bool) -> RouteFindings:
        """Hold this node's routes against their sources and its peers."""
        request = "verify" if repair else "check"
        found: Findings = await self._node.runtime.call("routes", request, timeout=VERIFY_TIMEOUT)
        return RouteFindings(
            node=self.name,
            repaired=repair,
            checked=found.checked,
            peers=found.peers,
            silent=found.silent,
            wrong=found.wrong,
            differences=found.differences,
        )

    # -- commands

    async def publish(
        self, topic: str, payload: bytes, *, qos: int, retain: bool, tenant: str = ""
    ) -> tuple[int, bool]:
        """To how many subscribers here and nodes elsewhere it went, and whether those nodes have it.

        Raises:
            WrongValueError: ``topic`` is no topic name.
        """
        safe: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def on_safe(done: bool) -> None:
            if not safe.done():
                safe.set_result(done)

        try:
            receivers = self._node.broker.publish(
                topic, payload, qos=qos, retain=retain, tenant=tenant, on_safe=on_safe if qos else None
            )
        except MqttProtocolError as error:
            raise WrongValueError(f"topic {topic[:100]!r}: {error}") from None
        if not qos:
            return receivers, True
        try:
            async with asyncio.timeout(SAFE_WAIT):
                return receivers, await safe
        except TimeoutError:
            return receivers, False

    async def kick(self, client: str, tenant: str = "") -> bool:
        """End the connection and session of a client of a tenant, on whichever node they are."""
        client = client_within("" if tenant == DEFAULT else tenant, client)
        takeovers = self._node.broker.takeovers
        if takeovers is None:
            return self._node.broker.kick(client)
        return await self._node.runtime.run(takeovers.kick, client)
