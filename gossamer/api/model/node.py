"""One node: its clients and routes, tables, processes, metrics, flow recorder and backups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from gossamer.api.model.base import Flag, OptionalSeconds, PositiveSeconds, Value


class RouteInfo(Value):
    """One row of the route table: this node has a subscriber to this filter."""

    filter: str
    node: str
    tenant: str = ""
    """Whose clients subscribe; blank: those of the default one."""


class TopicInfo(Value):
    """One filter, and all the nodes that have subscribers to it."""

    filter: str
    nodes: tuple[str, ...]
    tenant: str = ""
    """Whose clients subscribe; blank: those of the default one."""


class TopicMatch(Value):
    """The route of a message to a topic from this node, and the filters that decide it."""

    topic: str
    matches: tuple[TopicInfo, ...]
    nodes: tuple[str, ...]
    """The nodes that receive it, each once."""
    subscribers: int
    """Subscribers on this node that receive it."""


class RouteVerification(Value):
    """A request to verify the routes of a node against their sources and its peers."""

    repair: Flag = True
    """Repair differences; otherwise only report them."""


class RouteFindings(Value):
    """The result of verifying the routes of one node."""

    node: str
    repaired: bool
    """Whether differences were repaired."""
    checked: int
    """Routes and rows checked."""
    peers: int
    """Peers compared with."""
    silent: int
    """Peers that did not answer."""
    wrong: int
    """Differences in total."""
    differences: dict[str, int]
    """Count of each kind; kinds without any are left out."""


class SubscriptionInfo(Value):
    """One subscription of one session."""

    client: str
    filter: str
    node: str
    tenant: str = ""
    """Blank: the default one."""
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None


class CopyInfo(Value):
    """The copy of a persistent session that a quorum has, as the node of the session knows it."""

    range: str
    """The range of keys that has it: the `kind` of a group of `/raft`, which says who leads it and which
    nodes have replicas."""
    state: Literal["level", "behind", "unconfirmed", "not_copied"]
    """`level`: a quorum has all that was acknowledged; `behind`: it lacks something, which is on the disc of
    this node alone; `unconfirmed`: this node has not written it yet; `not_copied`: its range is full, or the
    ranges do not have three voters each."""
    since: float | None = None
    """Seconds since 1970; null: not known."""


class ClientInfo(Value):
    """One session, connected or not."""

    client: str
    connected: bool
    node: str
    tenant: str = ""
    """Blank: the default one."""
    address: str = ""
    version: Literal["", "3.1", "3.1.1", "5.0"] = ""
    username: str = ""
    keepalive: float = 0.0
    clean_start: bool = True
    """The client asked for a clean start."""
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
    copied: CopyInfo | None = None
    """Its copy at a quorum; null: it is transient, or `mqtt.sessions.replication` is off."""


class RetainedInfo(Value):
    """A topic with a retained message, without its payload."""

    topic: str
    tenant: str = ""
    """Whose clients get it; blank: those of the default one."""
    qos: int | None = None
    """Null: the message is large, and kept by other nodes."""
    bytes: int | None = None
    """Of its payload; null as above."""
    expires_at: float | None = None
    """Seconds since 1970; null: never."""


class TableInfo(Value):
    """One replicated or local table, as held here."""

    name: str
    type: str
    storage: str
    replication: str
    rows: int
    loaded: bool
    owners: Mapping[str, int] = {}
    """Rows by the node that owns them."""


class TableDigest(Value):
    """A digest of one owner's rows of a table; equal on two nodes whose rows are equal."""

    name: str
    owner: str
    """Of a shared table: the last writer of the rows."""
    rows: int
    checksum: str


class FoldedInfo(Value):
    """Processes of one label that are counted rather than listed; sums over all of them."""

    label: str
    number: int
    mailbox: int = 0
    reductions: int = 0
    restarts: int = 0
    memory: int = 0


class ProcessInfo(Value):
    """One process of the supervision tree, with the processes below it."""

    pid: Annotated[str, BeforeValidator(str)]
    name: str | None = None
    label: str
    type: str
    status: str
    restarts: int = 0
    """Restarts by its supervisor."""
    mailbox: int = 0
    reductions: int = 0
    """Messages handled."""
    memory: int = 0
    """Bytes, an estimate."""
    links: int = 0
    children: tuple[ProcessInfo, ...] = ()
    more: int = 0
    """Children that are not shown because there are too many of a kind."""
    dropped: int = 0
    """Messages that found the mailbox full."""
    note: str = ""
    """More about it: the client it serves, what it waits for."""
    folded: tuple[FoldedInfo, ...] = ()
    """The children counted by ``more``, summed up by label."""


class TraceEvent(Value):
    """One line of a trace: something that a process took in or sent out."""

    at: float
    event: str
    """tracing (the first line), call, cast, receive, send, bytes (of a connection), answer, failure, reply,
    exit, down, link, unlink, monitor, demonitor, spawn, dropped; lost (lines that came too fast), end (of the
    process, with the reason), over (of the trace).
    """
    way: Literal["in", "out", ""]
    peer: str
    """The sender or receiver, where it is known."""
    text: str
    """The message, shortened, without secrets."""


class BackupRequest(Value):
    """The file of a backup to write."""

    path: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    """A new file on the node's machine, from `/` on; null: in `backups` of its data directory."""


class BackupInfo(Value):
    """A backup that was written."""

    node: str
    path: str
    bytes: int
    seconds: float


class RecordingInfo(Value):
    """The flow recorder of this node, since the node started."""

    node: str
    enabled: bool
    recording: bool
    """False although it is enabled: its processes could not be kept alive; the log says why."""
    sample: float
    """Share of the messages that are recorded."""
    dir: str
    messages: int
    """Messages of its publishers that this node recorded."""
    recorded: int
    """Events."""
    dropped: int
    """Events for which there was no room, since the disc did not take them."""
    gaps: int
    """Periods in which events were dropped."""
    buffered: int
    """Rows waiting in memory."""
    buffer: int
    """Rows that may wait there."""
    files: int
    """Finished files of this node that are there now."""
    bytes: int
    oldest: float | None
    """When the oldest of them was finished; wall-clock seconds."""
    clock_offset: float | None
    """Seconds by which this node's clock is ahead of the others'; null: not measured."""


class RecordingSettings(Value):
    """Settings to change until the node restarts; what is left out stays."""

    enable: Flag | None = None
    sample: Annotated[float, Field(ge=0.0, le=1.0, strict=True)] | None = None
    rotate_after: PositiveSeconds | None = None
    keep_for: OptionalSeconds = None
    """Off, or null: files are kept however old they are."""
    keep_size: Annotated[int, Field(ge=0, strict=True)] | None = None
    """Bytes; 0: no bound."""
    buffer: Annotated[int, Field(ge=1000, le=10_000_000, strict=True)] | None = None


class TenantInfo(Value):
    """A tenant at one node: its limits, which all nodes have, and what it has there."""

    tenant: str
    node: str
    banned: bool
    limits: dict[str, int | None]
    """By name; null: none but those of the node."""
    connections: int
    messages: int
    """Messages that its clients have published at this node since that started."""
    retained: int
    """Its topics with a retained message, in the whole cluster."""


class TenantRequest(Value):
    """Limits to change, and whether the tenant is banned; what is not named stays."""

    limits: Annotated[dict[str, StrictInt | None], Field(default_factory=dict)]
    banned: StrictBool | None = None
