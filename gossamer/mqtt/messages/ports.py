"""Interfaces of the publish path: peers that must have a message, and the flow recorder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol


class ForwarderLike(Protocol):
    """Peer that must have a message: a remote node (``gossamer.routes.Forwarder``), or the disc."""

    @property
    def peer(self) -> str: ...

    def append(self, record: bytes, /) -> None: ...

    @property
    def append_acked(self) -> Callable[[bytes, Callable[[bool], None]], object]: ...


class FlowRecorderLike(Protocol):
    """Flow recorder as the publish path reports to it (``gossamer.audit``).

    Recorded messages have an id of zero or more (``message_ids``); others are not reported. Reads of a client
    are recorded whole; a run of a peer is recorded in part, by its :data:`~.records.Span`.
    """

    arrivals: Iterator[bool]
    """Sampling of reads and single messages: yields False for each that is skipped, and ends at one that is
    recorded. An iterator that counts by itself costs a read a third of what an attribute would."""
    live: bool
    """Whether the current read of a client is recorded."""
    busy: bool
    """Whether :meth:`settle` is due at the end of the turn."""
    marks: list[list[int]]
    """Marks of a peer for the messages that come next."""
    failed: dict[object, str]
    """Sessions whose QoS 0 of this turn did not reach their socket, and why."""
    share: str | None
    """Share group of the current delivery."""

    # Messages that arrive.

    def begin(self) -> None: ...

    def chance(self) -> bool: ...

    def run(
        self, plan: object, chunk: bytes, count: int, version: int, publisher: object, /, *, mixed: bool
    ) -> object: ...

    def one(self, plan: object, head: bytes, tail: bytes, version: int, publisher: object, /) -> int: ...

    def ran(
        self,
        plan: object,
        sinks: object,
        head: bytes,
        tail: bytes,
        count: int,
        version: int,
        publisher: object,
        /,
    ) -> range: ...

    def take(self, message: object, client_id: str | None, kept: bool, /) -> None: ...

    def arrive(self, message: object, peer: str, /) -> None: ...

    def marked(self, mark: object, /) -> None: ...

    # Messages that are sent.

    def marks_for(self, spans: object, /) -> bytes: ...

    def marks_of(self, message_ids: list[int], /) -> bytes: ...

    def spread(self, spans: object, count: int, /) -> list[int]: ...

    def routed(self, message: object, route: object, peers: object, /) -> None: ...

    def chosen(self, message: object, group: str, node: str | None, /) -> None: ...

    def hand(self, sessions: object, head: bytes, tail: bytes, message_id: int, /) -> None: ...

    def sent(
        self, session: object, message_id: int, qos: int, retain: bool, share: str | None, stored: bool, /
    ) -> None: ...

    def acknowledged(self, session: object, message_ids: object, role: str, /) -> None: ...

    def lost(self, message_id: int, session: object, reason: str, /) -> None: ...

    def refused_by(self, peer: str, message_ids: object, reason: str, /) -> None: ...

    def retained(self, message: object, /) -> None: ...

    def settle(self) -> None: ...

    # Clients.

    def connected(self, session: object, present: bool, /) -> None: ...

    def disconnected(self, session: object, reason: str, /) -> None: ...

    def ended(self, session: object, reason: str, /) -> None: ...

    def refused(self, client_id: str, reason: str, /) -> None: ...

    def subscribed(self, session: object, filters: object, reason: str | None, /) -> None: ...

    def unsubscribed(self, session: object, filters: object, /) -> None: ...

    def taken_over(self, session: object, source: str, /) -> None: ...
