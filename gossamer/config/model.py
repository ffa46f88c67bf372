"""Schema of the configuration: every key, its type and its default.

Rules: 1. Every section is frozen and refuses keys it does not know.  2. Every default is such that one node
runs with no file at all, reachable from this machine only.  3. Durations are seconds and sizes bytes once
read; nothing below parses text again.  4. What is secret is a ``SecretStr``, so that it never shows in a
repr, a log or an export.  5. A key that nothing reads yet says so.

Discovery and MQTT have modules of their own; :mod:`gossamer.config.load` reads files and the environment.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gossamer.config.discovery import Discovery, StaticDiscovery
from gossamer.config.mqtt import MqttConfig, TlsHostConfig
from gossamer.config.queues import QueueDeclaration, check_dead_letters
from gossamer.config.replication import RaftConfig, groups_of
from gossamer.config.services import ServicesConfig
from gossamer.config.units import Duration, OptionalDuration, PositiveDuration, PositiveSize, Size
from gossamer.config.values import (
    AUTOHEAL_DELAY,
    LOOPBACK,
    Autoheal,
    Blank,
    Endpoints,
    Fraction,
    Host,
    HttpUrl,
    NodeName,
    Port,
    Positive,
    Section,
)


class NodeConfig(Section):
    """Identity of this node."""

    name: NodeName = f"node1@{LOOPBACK}"
    """Unique in the cluster, and how peers address the node: name@host."""
    cookie: SecretStr | None = None
    """Secret shared by all nodes of the cluster. Blank: taken from ``.cookie`` in the data directory, made if
    missing."""
    data_dir: Path = Path("data")
    """Directory of persistent data; each node needs its own."""
    rack: Annotated[str, Field(max_length=64)] = ""
    """Rack, zone or site in which the node stands. Copies that a quorum keeps go to nodes in different ones,
    where there are so many. Blank: it shares its rack with no other node."""
    applications: tuple[str, ...] = ()
    """Applications to run here: package.module:function, each taking the node and returning child specs."""


# memberlist's LAN defaults find a killed member of thirty in about nine seconds. These are tuned to four,
# and restore the safety by trying harder inside each probe: a ping is repeated four times, two rounds of
# helpers are asked, and a stream is opened, before a member is suspected. At 5 % packet loss one probe
# fails wrongly with a probability below 1e-9, so the suspicion timeout does not have to absorb lost
# packets, only stalls. A suspicion never ends before ``suspicion_floor``, however small the cluster, so
# that a member that lives can always refute it. A host refuses connections only where no process of the
# member lives, so a round trip and the answers to a last probe, ``suspicion_refused``, are enough there.
class GossipConfig(Section):
    """Probing, suspicion and dissemination of members."""

    probe_interval: PositiveDuration = 0.5
    """Timeout of a probe, and the unit of suspicion timeouts."""
    probes_per_interval: Positive = 2
    """Number of members probed in each interval."""
    probe_timeout: PositiveDuration = 0.25
    """Without an answer for so long, a probe is repeated and others are asked to help."""
    indirect_checks: Annotated[int, Field(ge=0)] = 3
    """Number of members asked for indirect probes."""
    suspicion_mult: Annotated[float, Field(gt=0)] = 2.0
    """Suspicion timeout in probe intervals, before it grows with the logarithm of the members."""
    suspicion_floor: Annotated[PositiveDuration, Field(ge=0.5)] = 1.5
    """No suspected member is declared down sooner, so that one that lives can refute it. A node that stood
    still for as long (1.5 s where this is more) takes nothing from clients until its routes are current."""
    suspicion_refused: PositiveDuration = 0.5
    """The same for a member whose host refuses connections to its port: its process is gone."""
    suspicion_max_mult: Annotated[float, Field(ge=1)] = 6.0
    """Factor of the suspicion timeout without confirmations."""
    suspicion_confirmations: Annotated[int, Field(ge=0)] = 2
    """Number of confirmations for the shortest suspicion timeout."""
    awareness_max: Positive = 8
    """Maximum factor by which a slow node slows its probes."""
    retransmit_mult: Positive = 4
    """Transmits of each statement, before they grow with the logarithm of the members."""
    gossip_interval: PositiveDuration = 0.2
    """Interval of gossip rounds, in addition to piggybacking on probes."""
    gossip_fanout: Positive = 4
    """Number of members per gossip round."""
    sync_interval: PositiveDuration = 30.0
    """Interval of full push-pull exchanges with one other member."""
    reconnect_interval: PositiveDuration = 2.0
    """Interval of attempts to reach a member that is down."""
    down_retention: PositiveDuration = 86400.0
    """Time for which a down member is remembered."""
    left_retention: PositiveDuration = 86400.0
    """Time for which a member that left is remembered."""
    leave_delay: Duration = 1.0
    """Time for which a leaving node continues to gossip, so that its leave spreads."""
    mtu: Annotated[int, Field(ge=1024, le=65_000)] = 1400
    """Largest datagram."""


class ClusterConfig(Section):
    """Membership: the cluster of this node, and its gossip address."""

    env: Annotated[str, Field(min_length=1, max_length=64)] = "gossamer"
    """Nodes of another env are ignored."""
    host: Host = LOOPBACK
    """Address that gossip binds; blank: one is chosen."""
    port: Port = 7946
    """Gossip, UDP and TCP."""
    seed_endpoints: Endpoints = ()
    """Members to join, with strategy static; a node may list itself."""
    domain_name: str = ""
    """With strategy static, a name that resolves to seeds on this node's own gossip port, asked of the
    system's resolver at every try; with strategy dns, what ``discovery.dns.name`` is unless given."""
    discovery: Discovery = StaticDiscovery()
    """Strategy to find the cluster."""
    join_timeout: OptionalDuration = 60.0
    """How long a node that starts, and whose seeds are there and do not let it in, tries on before it serves
    alone; off: until one lets it in. Seeds that are not there are waited for 5 s, and tried for ever."""
    autoheal: Autoheal = AUTOHEAL_DELAY
    """on, off, or how long the leader waits before it heals a partition."""
    autoclean: OptionalDuration = 300.0
    """off, or how long a member may be down before it is removed."""
    heal_restarts: Literal["store", "node"] = "store"
    """Scope of a heal's restart on the smaller side: its tables, or, as in EMQX, everything clients see."""
    gossip: Annotated[GossipConfig, Blank] = GossipConfig()
    raft: Annotated[RaftConfig, Blank] = RaftConfig()


class LinkTlsConfig(TlsHostConfig):
    """TLS of links, version 1.3. Files that change are read again; links that are up stay up."""

    ca_file: Path
    """Authorities that sign certificates of nodes, and of Python clients, in PEM."""
    verify: Literal["require"] = "require"
    """Both sides show a certificate of an authority in ``ca_file``. It names the host part of the node's name
    (DNS name or IP address) and, if it has e-mail names, the whole node name among them."""


class DistributionConfig(Section):
    """Links between nodes."""

    host: Host = LOOPBACK
    """Address that links bind; blank: one is chosen."""
    port: Port = 4370
    """Links, TCP."""
    transport: Literal["grpc", "tcp"] = "grpc"
    """Transport of links, the same on every node: gRPC, or frames on plain TCP, which are faster."""
    tls: LinkTlsConfig | None = None
    """Certificates of links, on every node or on none; nothing: links are sealed by the cookie alone."""
    retention: PositiveSize = 64 * 1024**2
    """Bytes that may wait per peer and stream until the peer has acknowledged them."""
    max_frame: PositiveSize = 16 * 1024**2
    """A larger frame from a peer ends the link."""
    reconnect_min: PositiveDuration = 0.2
    """First wait before a lost link is tried again."""
    reconnect_max: PositiveDuration = 5.0
    """Longest such wait."""
    handshake_timeout: PositiveDuration = 5.0
    """Timeout of a new link's handshake."""


class ApiConfig(Section):
    """The HTTP API of this node."""

    enable: bool = True
    """Serve the API, the metrics and the console; off: the node is seen through other nodes only."""
    host: Host = LOOPBACK
    """Address it binds. Who asks from elsewhere needs a token (``gossamer tokens create``); set ``tls`` where
    others can listen in."""
    port: Port = 8091
    """Port it binds; 0: any that is free."""
    tls: TlsHostConfig | None = None
    """Serve HTTPS only, TLS 1.2 or later; files that change are read again. Nothing: plain HTTP."""
    hosts: tuple[Host, ...] = ()
    """Names, next to addresses and ``localhost``, by which browsers and proxies may call this node."""
    loopback_role: Literal["none", "viewer", "operator", "admin"] = "admin"
    """Role without a token on this machine itself."""
    anonymous_role: Literal["none", "viewer"] = "none"
    """Role without a token on other machines. Probes are always answered."""
    rate: Positive = 200
    """Requests a second that one address may make, and as many at once."""
    streams: Positive = 64
    """Event streams, traces and lists as JSON lines that may be open at once."""
    streams_each: Positive = 32
    """Maximum streams per token, or per address without a token; this machine counts as one."""
    connections: Annotated[int, Field(ge=16)] = 256
    """Connections that may be open at once; beyond that, one that asks nothing makes room."""


class GrpcConfig(Section):
    """gRPC for programs in any language: publish, subscribe, queues, the state of the cluster. They call with
    an MQTT user's name and password, or a token of the API, and have the API's rates."""

    enable: bool = False
    """Serve it. What programs are written against is ``gossamer/gateway/grpc/gossamer.proto``."""
    host: Host = LOOPBACK
    """Address it binds. Set ``tls`` where others can listen in."""
    port: Port = 50051
    """Port it binds; 0: any that is free."""
    tls: TlsHostConfig | None = None
    """Serve TLS only; files that change are read again. Nothing: plain."""


class AuditConfig(Section):
    """The flow recorder: what happened to each message, as Parquet for ``gossamer audit run``. It needs
    pyarrow (extra ``audit``). Switch it on when all nodes have this version."""

    enable: bool = False
    """Record; ``gossamer audit set`` switches it while the node runs."""
    dir: Path = Path("audit")
    """Directory of the files; relative paths are below the data directory. Nodes may share one."""
    sample: Fraction = 1.0
    """Share of the messages that are recorded, by 32 reads that follow one another; the node that takes a
    message decides for all. Clients, subscriptions and members are always recorded."""
    rotate_size: Annotated[PositiveSize, Field(ge=64 * 1024)] = 32 * 1024**2
    """Finish a file when so much was noted for it; it takes about a tenth of that on disc."""
    rotate_after: Annotated[PositiveDuration, Field(ge=1.0)] = 60.0
    """Finish a file after this time; what is not finished yet, jobs do not see."""
    keep_for: OptionalDuration = 7 * 86400.0
    """Remove this node's files when they are older; off: never."""
    keep_size: Size = 10 * 1024**3
    """Remove this node's oldest files when all of them take more; 0: never."""
    pseudonyms: bool = False
    """Write a keyed hash in place of client identifiers."""
    key: Annotated[SecretStr, Field(min_length=16)] | None = None
    """Key for hashes of payloads and client identifiers, the same on all nodes; unless given, it is
    derived from the cookie. Payloads are never stored."""
    buffer: Annotated[int, Field(ge=1000, le=10_000_000)] = 100_000
    """Rows kept in memory while the disc does not take them; more are dropped, counted, and recorded as a
    gap."""


class TracingConfig(Section):
    """OpenTelemetry traces of messages, from publisher to subscribers and across nodes. It needs the
    extra ``otel``. Set it alike on all nodes."""

    enable: bool = False
    """Make spans of messages and send them."""
    endpoint: HttpUrl = "http://127.0.0.1:4318/v1/traces"
    """Collector of spans that accepts OTLP over HTTP with protobuf, its path included."""
    sample: Fraction = 0.01
    """Share of the messages that are traced; while messages are recorded too (``audit``), some of those. A
    message that comes with a ``traceparent`` is traced when that says so, and never otherwise."""
    service_name: Annotated[str, Field(min_length=1)] = "gossamer"
    """Service name of the spans."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Sent with every request to the collector, tokens for example."""
    timeout: PositiveDuration = 5.0
    """Timeout of a batch; then it is lost and counted."""
    deliveries: Positive = 16
    """Subscribers of a message, on each node, that get a span of their own; the others are counted."""


class DrillConfig(Section):
    """Breaking things on purpose."""

    faults: bool = False
    """Put a gate between this node and its network, closed and opened by ``PUT /api/v1/drill/faults``. Links
    then pass a local relay and are slower: for nodes that may be broken, not for service."""


class LogConfig(Section):
    """Log of a node on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged; ``PUT /api/v1/log-level`` changes it while the node runs."""
    format: Literal["auto", "console", "json"] = "auto"
    """auto: console on a terminal, json otherwise."""


class Config(Section):
    """Configuration of one node."""

    node: Annotated[NodeConfig, Blank] = NodeConfig()
    cluster: Annotated[ClusterConfig, Blank] = ClusterConfig()
    distribution: Annotated[DistributionConfig, Blank] = DistributionConfig()
    mqtt: Annotated[MqttConfig, Blank] = MqttConfig()
    services: Annotated[ServicesConfig, Blank] = ServicesConfig()
    queues: tuple[QueueDeclaration, ...] = ()
    """Queues that are made, or changed, when this node starts; others are made by ``gossamer queues create``.
    Declare them alike at every node."""
    api: Annotated[ApiConfig, Blank] = ApiConfig()
    grpc: Annotated[GrpcConfig, Blank] = GrpcConfig()
    audit: Annotated[AuditConfig, Blank] = AuditConfig()
    tracing: Annotated[TracingConfig, Blank] = TracingConfig()
    drill: Annotated[DrillConfig, Blank] = DrillConfig()
    log: Annotated[LogConfig, Blank] = LogConfig()
    _remarks: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What differs here from the broker whose file this is, a sentence each."""
        return self._remarks

    @model_validator(mode="after")
    def _fits(self) -> Config:
        groups_of(self.cluster.raft, self.queues)
        check_dead_letters(self.queues)
        names = Counter(queue.name for queue in self.queues)
        if twice := [name for name, count in names.items() if count > 1]:
            raise PydanticCustomError("wanted", "each queue once; {name} is there twice", {"name": twice[0]})
        return self
