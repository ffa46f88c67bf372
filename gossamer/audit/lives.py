"""Clients as the recorder sees them: connections, sessions, subscriptions; and what they are called.

A client's identifier may be a person's name. With ``pseudonyms`` every row has a keyed hash instead, the same
on all nodes and forever as long as the key is the same, so that histories can still be followed.

Rule: these rows are never sampled; without them no message can be judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Protocol

import gossamer.audit.schema as schema
from gossamer.audit.event_buffer import KINDS, EventBuffer
from gossamer.mqtt import Subscription, Tracked

_CONNECTED = KINDS[schema.CONNECTED]
_DISCONNECTED = KINDS[schema.DISCONNECTED]
_ENDED = KINDS[schema.ENDED]
_SUBSCRIBED = KINDS[schema.SUBSCRIBED]
_UNSUBSCRIBED = KINDS[schema.UNSUBSCRIBED]
_TAKEN_OVER = KINDS[schema.TAKEN_OVER]
_DROPPED = KINDS[schema.DROPPED]

_KNOWN = 100_000
"""Pseudonyms that are remembered."""


def split_filter(text: str) -> tuple[str, str | None]:
    """A filter without its prefix, and its share group: ``$share/g/a/+`` is (``a/+``, ``g``)."""
    if text.startswith("$share/"):
        _, share, body = text.split("/", 2)
        return body, share
    return text.removeprefix("$exclusive/"), None


class Client(Protocol):
    """A session, or what stands for that of a client which has none."""

    client_id: str
    version: int
    expiry: float
    subscriptions: Mapping[str, tuple[Subscription, int | None]]
    window: int
    inflight: dict[int, object]
    message_ids: dict[int, int] | None
    queue: Iterable[tuple[bytes, Tracked, object]]

    @property
    def channel(self) -> Channel | None: ...

    def send(self, head: bytes, tail: bytes, message_id: int, /) -> object: ...

    def enqueue(self, head: bytes, tail: Tracked, /) -> object: ...


class Channel(Protocol):
    """A connection."""

    @property
    def keep_alive(self) -> float: ...


class Lives:
    """Recorder of connections, sessions and subscriptions.

    ``key`` is what client identifiers are hashed with where ``pseudonyms`` is set.
    """

    def __init__(self, buffer: EventBuffer, *, key: bytes, pseudonyms: bool) -> None:
        self._buffer = buffer
        self._note = buffer.note
        self._secret = key
        self._pseudonyms = pseudonyms
        self._names: dict[str, str] = {}
        self.changes = 0
        """Changes of subscriptions that it was told of."""

    def alias(self, client_id: str) -> str:
        """Return the name of a client in rows."""
        if not self._pseudonyms:
            return client_id
        name = self._names.get(client_id)
        if name is None:
            if len(self._names) >= _KNOWN:
                self._names.clear()
            digest = blake2b(client_id.encode(), key=self._secret, digest_size=8, person=b"client")
            name = self._names[client_id] = digest.hexdigest()
        return name

    def standing(self, session: Client) -> None:
        """A session was there before recording began."""
        if session.channel is not None:
            self.connected(session, True, standing=True)
        self.subscribed(session, session.subscriptions, "standing")

    def connected(self, session: Client, present: bool, *, standing: bool = False) -> None:
        """CONNACK goes out; ``standing``: it did before recording began."""
        channel = session.channel
        keep_alive = None if channel is None else channel.keep_alive
        detail = {"version": session.version, "keep_alive": keep_alive, "expiry": session.expiry}
        if standing:
            detail["standing"] = True
        self._begin()
        self._note(_CONNECTED, self.alias(session.client_id), session.expiry > 0, present, json.dumps(detail))

    def disconnected(self, session: Client, reason: str) -> None:
        """The connection of a session has ended."""
        self._begin()
        self._note(_DISCONNECTED, self.alias(session.client_id), session.expiry > 0, reason)

    def ended(self, session: Client, reason: str) -> None:
        """A session is no more, here and anywhere."""
        self.changes += 1
        self._begin()
        self._note(_ENDED, self.alias(session.client_id), reason)

    def refused(self, client_id: str, reason: str) -> None:
        """A client was not let in, for the sake of the others."""
        self._begin()
        self._note(_DROPPED, None, None, None, 1, self.alias(client_id), None, reason)

    def subscribed(self, session: Client, filters: Iterable[str], reason: str | None) -> None:
        """Every live node routes these filters of a session to this one."""
        self.changes += 1
        self._begin()
        name = self.alias(session.client_id)
        for text in filters:
            held = session.subscriptions.get(text)
            if held is not None:
                body, share = split_filter(text)
                self._note(_SUBSCRIBED, name, body, share, held[0].qos, held[0].no_local, reason)

    def unsubscribed(self, session: Client, filters: Iterable[str]) -> None:
        """A session does not have these filters any more."""
        self.changes += 1
        self._begin()
        name = self.alias(session.client_id)
        for text in filters:
            self._note(_UNSUBSCRIBED, name, *split_filter(text))

    def taken_over(self, session: Client, source: str) -> None:
        """A session has come here from another node."""
        self._begin()
        self._note(_TAKEN_OVER, self.alias(session.client_id), source)

    def _begin(self) -> None:
        """Something is noted now."""
