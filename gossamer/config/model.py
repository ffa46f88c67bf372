"""The configuration's schema: every key, what it takes, what it is when nobody says.

Rules: 1. Every section is frozen and refuses keys it does not know.  2. Every default is such that one node
runs with no file at all, reachable from this machine only.  3. Durations are seconds and sizes bytes once
read; nothing below parses text again.  4. What is secret is a ``SecretStr``, so that it never shows in a
repr, a log or an export.  5. A key that nothing reads yet says so.

Reading files and the environment is the business of :mod:`gossamer.config.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gossamer.config.discovery import Discovery, StaticDiscovery
from gossamer.config.section import Blank, Fraction, Numeral, Positive, Section
from gossamer.config.tracing import TracingConfig
from gossamer.config.units import Duration, OptionalDuration, PositiveDuration, PositiveSize, Size
from gossamer.config.values import AUTOHEAL_DELAY, Autoheal, Endpoints, Host, Networks, NodeName, Port

__all__ = [
    "ApiConfig",
    "AuditConfig",
    "ClusterConfig",
    "Config",
    "DistributionConfig",
    "DrillConfig",
    "GossipConfig",
    "HttpAuthConfig",
    "JwtConfig",
    "ListenerConfig",
    "LogConfig",
    "MqttAuthConfig",
    "MqttConfig",
    "MqttLimitsConfig",
    "MqttServerConfig",
    "NodeConfig",
    "TlsConfig",
    "TlsHostConfig",
]

LOOPBACK = "127.0.0.1"


class NodeConfig(Section):
    """Who this node is."""

    name: NodeName = f"node1@{LOOPBACK}"
    """Unique in the cluster, and how peers address the node: name@host."""
    cookie: SecretStr | None = None
    """What every node of the cluster must know. Blank: taken from ``.cookie`` in the data directory, made if
    missing."""
    data_dir: Path = Path("data")
    """Where what must survive is kept; each node needs its own."""
    applications: tuple[str, ...] = ()
    """What else runs here: package.module:function, each taking the node and returning child specs."""


class GossipConfig(Section):
    """How members are probed, suspected and told about; names and numbers are those of the gossip layer."""

    probe_interval: PositiveDuration = 0.5
    """How long a probe may take, and the unit of suspicion timeouts."""
    probes_per_interval: Positive = 2
    """How many members are probed in each interval."""
    probe_timeout: PositiveDuration = 0.25
    """Without an answer for so long, a probe is repeated and others are asked to help."""
    indirect_checks: Annotated[int, Field(ge=0)] = 3
    """How many members are asked to help."""
    suspicion_mult: Annotated[float, Field(gt=0)] = 2.0
    """How long a suspicion lasts, in probe intervals, before it grows with the logarithm of the members."""
    suspicion_floor: PositiveDuration = 1.5
    """No suspicion ends sooner, so that a member that lives can refute it."""
    suspicion_refused: PositiveDuration = 0.5
    """The same for one whose host refuses connections to its port: its process is gone."""
    suspicion_max_mult: Annotated[float, Field(ge=1)] = 6.0
    """How many times longer it lasts while nobody confirms it."""
    suspicion_confirmations: Annotated[int, Field(ge=0)] = 2
    """How many others must agree for it to end at its soonest."""
    awareness_max: Positive = 8
    """How many times slower a node that finds itself slow may probe."""
    retransmit_mult: Positive = 4
    """How often news is repeated, before it grows with the logarithm of the members."""
    gossip_interval: PositiveDuration = 0.2
    """How often news is sent on top of what rides on probes."""
    gossip_fanout: Positive = 4
    """How many members get it each time."""
    sync_interval: PositiveDuration = 30.0
    """How often the whole view is exchanged with one other member."""
    reconnect_interval: PositiveDuration = 2.0
    """How often a member that is down is tried again."""
    down_retention: PositiveDuration = 86400.0
    """How long a member that is down is remembered."""
    left_retention: PositiveDuration = 86400.0
    """How long a member that left is remembered."""
    leave_delay: Duration = 1.0
    """How long a leaving node goes on gossiping, so that its leave spreads."""
    mtu: Annotated[Positive, Field(ge=1024, le=65_000)] = 1400
    """Largest datagram."""


class ClusterConfig(Section):
    """Membership: whom this node belongs with, and where it gossips."""

    env: Annotated[str, Field(min_length=1, max_length=64)] = "gossamer"
    """Nodes of another env are not seen."""
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
    """How a node finds the cluster it belongs to."""
    autoheal: Autoheal = AUTOHEAL_DELAY
    """on, off, or how long the leader waits before it heals a partition."""
    autoclean: OptionalDuration = 300.0
    """off, or how long a member may be down before it is removed."""
    heal_restarts: Literal["store", "node"] = "store"
    """What a heal restarts at the smaller side: its tables, or, as EMQX does, all that its clients see."""
    gossip: Annotated[GossipConfig, Blank] = GossipConfig()


class DistributionConfig(Section):
    """Links between nodes."""

    host: Host = LOOPBACK
    """Address that links bind; blank: one is chosen."""
    port: Port = 4370
    """Links, TCP."""
    transport: Literal["grpc", "tcp"] = "grpc"
    """What carries links, the same on every node: gRPC, or frames on plain TCP, which take less time."""
    retention: PositiveSize = 64 * 1024**2
    """How much may wait, for each peer and stream, until the peer has taken it."""
    max_frame: PositiveSize = 16 * 1024**2
    """A larger frame from a peer ends the link."""
    reconnect_min: PositiveDuration = 0.2
    """First wait before a lost link is tried again."""
    reconnect_max: PositiveDuration = 5.0
    """Longest such wait."""
    handshake_timeout: PositiveDuration = 5.0
    """How long a new link may take to prove who it is."""


class TlsHostConfig(Section):
    """The certificate of one host name that a listener answers for."""

    cert_file: Path
    """The certificate and those between it and its authority, in PEM."""
    key_file: Path
    """Its private key, in PEM, not encrypted."""


class TlsConfig(TlsHostConfig):
    """TLS of one listener; files that change are read again without a restart."""

    hosts: Annotated[dict[str, TlsHostConfig], Field(default_factory=dict)]
    """Certificates by the host name that the client asks for (SNI); others get the one above."""
    ca_file: Path | None = None
    """Who signs the certificates of clients."""
    crl_file: Path | None = None
    """Which of them are revoked: the lists of all authorities in ``ca_file``, in PEM."""
    verify: Literal["none", "optional", "require"] = "none"
    """Whether a client must show a certificate (mTLS)."""
    username: Literal["none", "cn", "san"] = "none"
    """Which part of a verified client certificate is its user name."""


class ListenerConfig(Section):
    """One address that MQTT clients connect to."""

    type: Literal["tcp", "tls", "ws", "wss", "unix"] = "tcp"
    """What carries MQTT: TCP, WebSocket, each also over TLS, or a Unix socket."""
    host: Host = LOOPBACK
    """Address it binds; blank: every address of this machine."""
    port: Port = 1883
    """Port it binds; 0: any that is free."""
    socket: Path | None = None
    """Where the socket of a unix listener is."""
    path: str = "/mqtt"
    """Path of the WebSocket."""
    tls: TlsConfig | None = None
    """For tls and wss."""
    proxy_protocol: bool = False
    """Connections open with a PROXY header (version 1 or 2) that names the real client; before TLS, where
    the listener has it."""
    proxy_sources: Annotated[Networks, Field(validate_default=True)] = ("127.0.0.0/8", "::1/128")  # type: ignore[assignment]
    """With ``proxy_protocol``, where the balancers are; connections from elsewhere are closed."""
    reuse_port: bool = False
    """Let several nodes on one machine share this port; the kernel spreads new connections over them."""
    max_connections: Positive = 1_000_000
    """Connections beyond this are refused."""
    max_pending: Positive = 10_000
    """Connections that have not been let in yet, beyond which new ones are refused."""
    max_connect_rate: Positive | None = None
    """New connections a second; more are refused."""
    max_message_rate: Positive | None = None
    """Messages a second from one client; it is read from more slowly when it sends more."""
    max_packet_size: Annotated[PositiveSize, Field(ge=1024, le=268_435_460)] | None = None
    """A smaller limit than ``mqtt.limits.max_packet_size`` for this listener."""

    @model_validator(mode="after")
    def _fits(self) -> ListenerConfig:
        if (self.type in ("tls", "wss")) != (self.tls is not None):
            raise PydanticCustomError("wanted", "a tls section where type is tls or wss, and nowhere else")
        if (self.type == "unix") != (self.socket is not None):
            raise PydanticCustomError("wanted", "a socket where type is unix, and nowhere else")
        if self.tls is not None:
            if self.tls.verify != "none" and self.tls.ca_file is None:
                raise PydanticCustomError("wanted", "tls.ca_file, to verify clients with")
            if self.tls.username != "none" and self.tls.verify == "none":
                raise PydanticCustomError("wanted", "tls.verify, where certificates give user names")
            if self.tls.crl_file is not None and self.tls.ca_file is None:
                raise PydanticCustomError("wanted", "tls.ca_file, whose certificates tls.crl_file revokes")
        return self


class MqttServerConfig(Section):
    """The MQTT server of this node."""

    enable: bool = True
    """Serve MQTT clients; off: a node that only belongs to the cluster."""
    listeners: tuple[ListenerConfig, ...] = (ListenerConfig(),)
    """Where clients connect to."""


class JwtConfig(Section):
    """Clients that present a JSON Web Token as their password."""

    algorithms: tuple[Literal["HS256", "HS384", "HS512", "RS256", "ES256", "EdDSA"], ...] = ("HS256",)
    """How tokens may be signed; all with a secret, or all with a public key."""
    secret: SecretStr | None = None
    """For the HS algorithms, 32 bytes or more."""
    public_key_file: Path | None = None
    """For the others, PEM."""
    username_claim: str = "sub"
    """The claim that is the user name; a name in CONNECT must be the same."""
    issuer: str | None = None
    """Who must have issued a token (``iss``)."""
    audience: str | None = None
    """For whom a token must be (``aud``)."""
    leeway: Duration = 5.0
    """By how much clocks may differ where a token says from when or until when it holds."""

    @model_validator(mode="after")
    def _fits(self) -> JwtConfig:
        symmetric = {name.startswith("HS") for name in self.algorithms}
        if len(symmetric) != 1:
            raise PydanticCustomError("wanted", "algorithms of one kind: HS, or those with public keys")
        if (self.secret is not None) != (True in symmetric) or (self.public_key_file is not None) == (
            True in symmetric
        ):
            raise PydanticCustomError("wanted", "secret for the HS algorithms, else public_key_file")
        return self


class HttpAuthConfig(Section):
    """A service that is asked about every CONNECT."""

    url: Annotated[str, Field(pattern=r"^https?://")]
    """Where it is asked, by POST."""
    timeout: PositiveDuration = 3.0
    """How long it may take to answer; without an answer the client is told that the server is unavailable."""
    max_concurrent: Positive = 64
    """Questions on the way at once; a few times as many clients wait, more hear that the server is busy."""
    cache: Duration = 10.0
    """How long an answer holds for the same client, user and password; 0s: ask every time."""


class MqttAuthConfig(Section):
    """Who may connect, and do what. Sources are asked in this order; the first that knows decides."""

    allow_anonymous: bool = False
    """Let clients in that present no user name."""
    password_file: Path | None = None
    """Lines ``user:hash`` with argon2 hashes, written by ``gossamer passwd``."""
    scram_file: Path | None = None
    """Lines ``user:credential``, written by ``gossamer passwd --scram``: who may authenticate by
    SCRAM-SHA-256, the enhanced authentication of version 5 (method ``SCRAM-SHA-256``)."""
    jwt: JwtConfig | None = None
    """Tokens as passwords; nothing: they are not understood."""
    http: HttpAuthConfig | None = None
    """A service that is asked; nothing: none is."""
    acl_file: Path | None = None
    """Who may publish and subscribe to what; without it, whoever is let in may do everything."""
    reload_interval: PositiveDuration = 5.0
    """How often password, ACL and certificate files are looked at for changes."""
    log_rate: Positive = 100
    """Decisions about clients that are logged in a second; what is beyond is counted, and how much that was
    is logged."""


class MqttLimitsConfig(Section):
    """What one client may ask of a node."""

    connect_timeout: PositiveDuration = 10.0
    """How long a new connection may take to send CONNECT."""
    max_packet_size: Annotated[PositiveSize, Field(ge=1024, le=268_435_460)] = 1024**2
    """A larger packet ends the connection."""
    max_keepalive: PositiveDuration = 65535.0
    """Longest keep-alive; a version 5 client that asks for more is told this one."""
    max_inflight: Annotated[int, Field(gt=0, le=65535)] = 1024
    """Messages of QoS 1 and 2 on the way to one client, and from it (receive maximum)."""
    max_queued: Annotated[int, Field(ge=0)] = 10_000
    """Messages of QoS 1 and 2 kept for a session that cannot take them now."""
    max_queued_bytes: PositiveSize = 64 * 1024**2
    """Bytes that they may take; ``sessions.overflow`` says what happens beyond either limit."""
    max_node_queued_bytes: PositiveSize = 1024**3
    """Bytes that the queues of all sessions of the node may take together."""
    max_write_buffer: PositiveSize = 4 * 1024**2
    """Bytes waiting for a slow client, beyond which QoS 0 messages to it are dropped and counted."""
    max_session_expiry: Duration = 7 * 86400.0
    """Longest time a session outlives its connection."""
    max_subscriptions: Positive = 10_000
    """Subscriptions of one session."""
    max_topic_levels: Positive = 128
    """Levels of a topic name or filter."""
    max_topic_bytes: Annotated[PositiveSize, Field(le=65_535)] = 65_535
    """Length of a topic name or filter."""
    max_exclusive: Annotated[int, Field(ge=0)] = 100_000
    """Subscriptions to ``$exclusive/…`` on one node; 0: none are allowed."""
    max_delayed: Annotated[int, Field(ge=0)] = 100_000
    """Messages to ``$delayed/…`` that wait on one node; more are dropped and counted."""
    topic_alias_maximum: Annotated[int, Field(ge=0, le=65535)] = 64
    """Topic aliases a version 5 client may use."""
    subscribe_wait: Duration = 2.0
    """How long SUBACK waits for every live node to have applied the new route, before
    ``mqtt.unconfirmed_subscriptions`` decides."""
    max_lag: OptionalDuration = 2.0
    """New clients are told that the server is busy while the event loop runs this late; off: never."""

    @model_validator(mode="after")
    def _fits(self) -> MqttLimitsConfig:
        if self.max_queued_bytes < self.max_packet_size:
            raise PydanticCustomError("wanted", "max_queued_bytes of max_packet_size or more")
        if self.max_node_queued_bytes < self.max_queued_bytes:
            raise PydanticCustomError("wanted", "max_node_queued_bytes of max_queued_bytes or more")
        return self


class MqttCapabilitiesConfig(Section):
    """What this node offers; clients of version 5 are told what is missing."""

    maximum_qos: Annotated[Literal[0, 1, 2], Numeral] = 2
    """Highest QoS that may be published; at 0 every message takes a slower path."""
    retain: bool = True
    """Retained messages and wills. What other nodes or programs retain is delivered all the same."""
    wildcards: bool = True
    """Filters with ``+`` or ``#``."""
    shared: bool = True
    """``$share/…``."""
    subscription_identifiers: bool = True
    """Numbers that subscriptions of version 5 give to what they match."""


class MqttRetainedConfig(Section):
    """Retained messages, which every node of the cluster has."""

    threshold: Annotated[PositiveSize, Field(le=65_536)] = 1024
    """Payloads smaller than this are copied to every node; others are fetched when they are asked for."""
    copies: Positive = 2
    """Nodes that hold a payload that is not copied to every node."""
    max_messages: Positive = 1_000_000
    """Topics with a retained message; more are refused and counted."""
    fetch_timeout: PositiveDuration = 2.0
    """How long another node may take to answer with a payload, before the next one is asked."""


class MqttSessionsConfig(Section):
    """Sessions that outlive their connection."""

    persistent: bool = True
    """Keep them on disc, so that they outlive the node too; messages for them are acknowledged once there."""
    overflow: Literal["drop_oldest", "drop_newest", "disconnect"] = "drop_oldest"
    """Which message goes where a session has as much queued as the limits allow; it is counted. disconnect:
    a client that is connected is sent away (0x97) besides, and what it has queued waits for it, the oldest
    going first."""
    away_messages: Annotated[int, Field(ge=0)] = 100_000
    """Messages that a node keeps for the sessions of another one while that is down; 0: none. Without room
    the oldest goes, or the new one where ``overflow`` is drop_newest; it is counted and raises an alarm."""
    away_bytes: PositiveSize = 64 * 1024**2
    """Bytes of such messages."""


SharedStrategy = Literal[
    "random", "round_robin", "round_robin_per_group", "sticky", "local", "hash_clientid", "hash_topic"
]


UnconfirmedSubscriptions = Literal["hold", "refuse", "accept"]


class MqttConfig(Section):
    """MQTT: where, for whom, and how much."""

    server: Annotated[MqttServerConfig, Blank] = MqttServerConfig()
    auth: Annotated[MqttAuthConfig, Blank] = MqttAuthConfig()
    limits: Annotated[MqttLimitsConfig, Blank] = MqttLimitsConfig()
    capabilities: Annotated[MqttCapabilitiesConfig, Blank] = MqttCapabilitiesConfig()
    response_information: str | None = None
    """What a version 5 client that asks for response information gets, to build response topics from; ``%c``
    is its client identifier, ``%u`` its user name. Example: ``replies/%c``."""
    validate_payloads: bool = False
    """Refuse messages whose payload is said to be UTF-8 (payload format indicator 1) and is not."""
    sys_interval: OptionalDuration = 10.0
    """How often ``$SYS/broker/…`` topics are published while somebody subscribes to them; off: never."""
    sessions: Annotated[MqttSessionsConfig, Blank] = MqttSessionsConfig()
    retained: Annotated[MqttRetainedConfig, Blank] = MqttRetainedConfig()
    shared_subscription_strategy: SharedStrategy = "round_robin"
    """Which member of a ``$share`` group gets a message; chosen once, by the node where it is published,
    among the members of all nodes."""
    unconfirmed_subscriptions: UnconfirmedSubscriptions = "hold"
    """What SUBACK does where a node that is not declared down has not applied the new route within
    ``limits.subscribe_wait``. hold: wait until it has, or is declared down. refuse: answer 0x80 and undo the
    subscription. accept: answer success; clients of version 5 are told which nodes are missing."""
    forwarding: Literal["sync", "async"] = "sync"
    """When a message of QoS 1 or 2 for other nodes is acknowledged: once they have dispatched it (sync), or
    once it is accepted here and on its way (async: sooner, and a node that fails may lose it)."""


class ApiConfig(Section):
    """The HTTP API of this node."""

    enable: bool = True
    """Serve the API, the metrics and the console; off: the node is seen through other nodes only."""
    host: Host = LOOPBACK
    """Address it binds. Who asks from elsewhere needs a token (``gossamer tokens create``); put TLS in
    front of it where others can listen in."""
    port: Port = 8091
    """Port it binds; 0: any that is free."""
    hosts: tuple[Host, ...] = ()
    """Names, next to addresses and ``localhost``, by which browsers and proxies may call this node."""
    loopback_role: Literal["none", "viewer", "operator", "admin"] = "admin"
    """What may be done without a token from this machine itself."""
    anonymous_role: Literal["none", "viewer"] = "none"
    """What may be done without a token from elsewhere. Probes are always answered."""
    rate: Positive = 200
    """Requests a second that one address may make, and as many at once."""
    streams: Positive = 64
    """Event streams, traces and lists as JSON lines that may be open at once."""
    streams_each: Positive = 32
    """How many of them one token, or one address without a token, may have; this machine counts as one."""
    connections: Annotated[int, Field(ge=16)] = 256
    """Connections that may be open at once; beyond that, one that asks nothing makes room."""


class AuditConfig(Section):
    """The flow recorder: what happened to each message, as Parquet for ``gossamer audit run``. It needs
    pyarrow (extra ``audit``). Switch it on when all nodes have this version."""

    enable: bool = False
    """Record; ``gossamer audit set`` switches it while the node runs."""
    dir: Path = Path("audit")
    """Where the files go; relative paths are below the data directory. Nodes may share one."""
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
    """What payloads and client identifiers are hashed under, the same on all nodes; unless given, it is
    derived from the cookie. Payloads are never stored."""
    buffer: Annotated[int, Field(ge=1000, le=10_000_000)] = 100_000
    """Rows kept in memory while the disc does not take them; more are dropped, counted, and recorded as a
    gap."""


class DrillConfig(Section):
    """Breaking things on purpose."""

    faults: bool = False
    """Put a gate between this node and its network, closed and opened by ``PUT /api/v1/drill/faults``. Links
    then pass a local relay and are slower: for nodes that may be broken, not for service."""


class LogConfig(Section):
    """What a node says on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is said; ``PUT /api/v1/log-level`` changes it while the node runs."""
    format: Literal["auto", "console", "json"] = "auto"
    """auto: console on a terminal, json otherwise."""


class Config(Section):
    """Everything one node is told."""

    node: Annotated[NodeConfig, Blank] = NodeConfig()
    cluster: Annotated[ClusterConfig, Blank] = ClusterConfig()
    distribution: Annotated[DistributionConfig, Blank] = DistributionConfig()
    mqtt: Annotated[MqttConfig, Blank] = MqttConfig()
    api: Annotated[ApiConfig, Blank] = ApiConfig()
    audit: Annotated[AuditConfig, Blank] = AuditConfig()
    tracing: Annotated[TracingConfig, Blank] = TracingConfig()
    drill: Annotated[DrillConfig, Blank] = DrillConfig()
    log: Annotated[LogConfig, Blank] = LogConfig()
