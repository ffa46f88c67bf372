"""Routes, subscriptions, clients and retained messages."""

from __future__ import annotations

from typing import Literal

from gossamer.api.model.base import Flag, Value

__all__ = [
    "ClientInfo",
    "RetainedInfo",
    "RouteFindings",
    "RouteInfo",
    "RouteVerification",
    "SubscriptionInfo",
    "TopicInfo",
    "TopicMatch",
]


class RouteInfo(Value):
    """One row of the route table: this node has a subscriber to this filter."""

    filter: str
    node: str


class TopicInfo(Value):
    """One filter, and all the nodes that have subscribers to it."""

    filter: str
    nodes: tuple[str, ...]


class TopicMatch(Value):
    """Where a message to this topic would go from here, and why."""

    topic: str
    matches: tuple[TopicInfo, ...]
    nodes: tuple[str, ...]
    """The nodes it goes to, each once."""
    subscribers: int
    """Subscribers on this node that get it."""


class RouteVerification(Value):
    """Order a node to hold its routes against their sources and its peers."""

    repair: Flag = True
    """Put right what is wrong; otherwise only report it."""


class RouteFindings(Value):
    """What a verification of one node's routes looked at, and what was wrong."""

    node: str
    repaired: bool
    """Whether what was wrong was put right."""
    checked: int
    """Things looked at."""
    peers: int
    """Peers compared with."""
    silent: int
    """Peers that did not answer."""
    wrong: int
    """Differences, all together."""
    differences: dict[str, int]
    """How many of each kind; kinds without any are left out."""


class SubscriptionInfo(Value):
    """One subscription of one session."""

    client: str
    filter: str
    node: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None


class ClientInfo(Value):
    """One session, connected or not."""

    client: str
    connected: bool
    node: str
    address: str = ""
    version: Literal["", "3.1", "3.1.1", "5.0"] = ""
    username: str = ""
    keepalive: float = 0.0
    clean_start: bool = True
    """The session began with nothing because its client wanted that."""
    session_expiry: float = 0.0
    connected_at: float = 0.0
    """Seconds since 1970; 0: it is not connected."""
    subscriptions: int = 0
    inflight: int = 0
    queued: int = 0
    dropped: int = 0
    """Messages for it that were dropped, since the session is on this node."""
    process: str = ""
    """The process of its connection on that node, which can be traced."""


class RetainedInfo(Value):
    """A topic that has a retained message, and what is known of it here without its payload."""

    topic: str
    qos: int | None = None
    """Null: it is large, and kept by other nodes."""
    bytes: int | None = None
    """Of its payload; null as above."""
    expires_at: float | None = None
    """Seconds since 1970; null: it stays."""
