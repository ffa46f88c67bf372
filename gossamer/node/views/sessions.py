"""The sessions of a node as the API lists them: clients, subscriptions, and topics with retained messages.

Rules: 1. A walk gives None for each session that is not wanted: who walks counts what was looked at, so that
a rare find among 100,000 does not hold the loop.  2. Rows are made only of what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from gossamer.api import ClientSearch, Listed, Walked, sort_key
from gossamer.api.model.node import ClientInfo, RetainedInfo, SubscriptionInfo
from gossamer.mqtt import ClientInfo as Session
from gossamer.mqtt import Message
from gossamer.routes import parse_filter

if TYPE_CHECKING:
    from gossamer.clock import Clock
    from gossamer.mqtt import Broker

__all__ = ["client_info", "clients_of", "retained_of", "subscriptions_of"]

_VERSIONS: dict[int, Literal["", "3.1", "3.1.1", "5.0"]] = {3: "3.1", 4: "3.1.1", 5: "5.0"}

_SORTED: dict[str, Callable[[Any], str | float]] = {
    "client": lambda session: session.client_id,
    "username": lambda session: session.username or "",
    "address": lambda session: "" if session.channel is None else session.channel.peer,
    "connected_at": lambda session: 0.0 if session.channel is None else session.channel.since,
    "subscriptions": lambda session: len(session.subscriptions),
    "inflight": lambda session: len(session.inflight),
    "queued": lambda session: len(session.queue),
    "dropped": lambda session: session.lost,
}
"""What a row shows in the fields that it may be sorted by; ``node`` is that of all."""


def clients_of(broker: Broker, node: str, search: ClientSearch) -> Iterator[Walked[ClientInfo]]:
    """The sessions that ``search`` wants."""
    search = search.folded()
    by, descending = search.sort, search.descending
    value = _SORTED.get(by or "", lambda _session: node)
    sessions = broker.sessions
    for name in list(sessions) if search.client is None else [search.client]:
        session = sessions.get(name)
        if session is None:
            continue
        channel = session.channel
        if not search.admits(
            name,
            connected=channel is not None,
            user=session.username or "",
            address="" if channel is None else channel.peer,
        ):
            yield None
            continue
        key = (name, node) if by is None else (sort_key(value(session), descending=descending), name, node)
        yield key, partial(_client, broker, session, node)


def _client(broker: Broker, session: Any, node: str) -> ClientInfo:
    info = client_info(broker.client(session), node)
    channel = session.channel
    return info if channel is None else info.model_copy(update={"process": str(channel.pid)})


def client_info(session: Session, node: str) -> ClientInfo:
    """A session of the broker as the API shows it."""
    return ClientInfo(
        client=session.client_id,
        connected=session.connected,
        node=node,
        address=session.peer,
        version=_VERSIONS.get(session.version, ""),
        username=session.username or "",
        keepalive=session.keep_alive,
        clean_start=session.clean,
        session_expiry=session.expiry,
        connected_at=session.connected_at,
        subscriptions=session.subscriptions,
        inflight=session.inflight,
        queued=session.queued,
        dropped=session.dropped,
    )


def subscriptions_of(
    broker: Broker, node: str, *, client: str | None, topic_filter: str | None, search: str
) -> Iterator[Walked[SubscriptionInfo]]:
    """Every subscription of every session; ``search`` is a part of the client or of the filter."""
    sessions, part = broker.sessions, search.casefold()
    for name in list(sessions) if client is None else [client]:
        session = sessions.get(name)
        if session is None:
            continue
        yield None
        named = part in name.casefold()
        for wanted, (options, identifier) in list(session.subscriptions.items()):
            if topic_filter not in (None, wanted) or not (named or part in wanted.casefold()):
                continue
            show = partial(
                SubscriptionInfo,
                client=name,
                filter=wanted,
                node=node,
                qos=options.qos,
                no_local=options.no_local,
                retain_as_published=options.retain_as_published,
                identifier=identifier,
            )
            yield (name, wanted, node), show


def retained_of(broker: Broker, clock: Clock, topic_filter: str) -> Iterable[Listed[RetainedInfo]]:
    """The topics that match and have a retained message."""
    parse_filter(topic_filter)
    # Held as a list: it changes while it is walked.
    topics = list(broker.retained.topics(topic_filter))
    return (((topic,), partial(_retained, broker, clock, topic)) for topic in topics)


def _retained(broker: Broker, clock: Clock, topic: str) -> RetainedInfo:
    message = broker.retained.get(topic)
    if not isinstance(message, Message):
        return RetainedInfo(topic=topic)
    left = message.expires_at
    return RetainedInfo(
        topic=topic,
        qos=message.qos,
        bytes=len(message.payload),
        expires_at=None if left is None else clock.wall() + left - clock.monotonic(),
    )
