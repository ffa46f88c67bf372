"""Receivers of messages: peers that must have one, and the recorder of what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol


class ForwarderLike(Protocol):
    """Peer that must have a message: a remote node's batch (``gossamer.routes.Forwarder``), or the disc."""

    @property
    def peer(self) -> str: ...

    def append(self, record: bytes, /) -> None: ...

    @property
    def append_acked(self) -> Callable[[bytes, Callable[[bool], None]], object]: ...


class Until:
    """Condition among the peers of a message that its acknowledgement waits for: ``peer`` names it,
    ``append_acked`` sees to it."""

    def __init__(self, peer: str, append_acked: Callable[[bytes, Callable[[bool], None]], object]) -> None:
        self.peer = peer
        self.append_acked = append_acked

    def append(self, record: bytes) -> None:
        """QoS 0 waits for nothing."""


class FlowRecorderLike(Protocol):
    """Flow recorder as the publish path reports to it (``gossamer.audit``).

    A message that is kept has an identifier of zero or more (``message_ids``); others are not reported. Of
    what a client sends whole reads are kept; a run that a peer sends is kept in part, as its ``Span`` say.
    """

    arrivals: Iterator[bool]
    """Reads, and messages that come otherwise: has a False for each that is passed over, and ends at one that
    is kept. What an iterator counts by itself costs a read a third of what an attribute would."""
    live: bool
    """What is being taken from a client right now is kept."""
    busy: bool
    """Something waits for the end of the turn."""
    marks: list[list[int]]
    """What peers said of the messages that come next; false: nothing."""
    failed: dict[object, str]
    """Sessions whose QoS 0 of this turn did not reach their socket, and why."""
    share: str | None
    """The share group for whose member something is delivered right now."""

    # Messages come.

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

    # They go.

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

    # Clients come and go.

    def connected(self, session: object, present: bool, /) -> None: ...

    def disconnected(self, session: object, reason: str, /) -> None: ...

    def ended(self, session: object, reason: str, /) -> None: ...

    def refused(self, client_id: str, reason: str, /) -> None: ...

    def subscribed(self, session: object, filters: object, reason: str | None, /) -> None: ...

    def unsubscribed(self, session: object, filters: object, /) -> None: ...

    def taken_over(self, session: object, source: str, /) -> None: ...
