"""Configuration of MQTT: listeners, authentication, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gossamer.config.units import Duration, OptionalDuration, PositiveDuration, PositiveSize
from gossamer.config.values import (
    LOOPBACK,
    Blank,
    Host,
    HttpUrl,
    Networks,
    Numeral,
    Port,
    Positive,
    Section,
    TenantName,
)


class TlsHostConfig(Section):
    """The certificate of one host name that a listener answers for."""

    cert_file: Path
    """The certificate and those between it and its authority, in PEM."""
    key_file: Path
    """Private key, in PEM, not encrypted."""


class TlsConfig(TlsHostConfig):
    """TLS of one listener; files that change are read again without a restart."""

    hosts: Annotated[dict[str, TlsHostConfig], Field(default_factory=dict)]
    """Certificates by the host name that the client asks for (SNI); others get the one above."""
    ca_file: Path | None = None
    """Authorities that sign certificates of clients."""
    crl_file: Path | None = None
    """Which of them are revoked: the lists of all authorities in ``ca_file``, in PEM."""
    verify: Literal["none", "optional", "require"] = "none"
    """Requirement of a client certificate (mTLS)."""
    username: Literal["none", "cn", "san"] = "none"
    """Which part of a verified client certificate is its user name."""
    tenant: Literal["none", "o", "ou"] = "none"
    """Which part of a verified client certificate names its tenant: organization or organizational unit. Of a
    certificate without it, ``tenant`` of the listener counts."""


class ListenerConfig(Section):
    """Listener for MQTT clients."""

    type: Literal["tcp", "tls", "ws", "wss", "unix"] = "tcp"
    """Transport of MQTT: TCP, WebSocket, each also over TLS, or a Unix socket."""
    host: Host = LOOPBACK
    """Address it binds; blank: every address of this machine."""
    port: Port = 1883
    """Port it binds; 0: any that is free."""
    socket: Path | None = None
    """Path of a unix listener's socket."""
    path: str = "/mqtt"
    """Path of the WebSocket."""
    origins: tuple[str, ...] = ()
    """Pages that may use the WebSocket, such as ``https://console.example``, beside those of its own host;
    ``*``: all. Only browsers say which page connects."""
    tls: TlsConfig | None = None
    """For tls and wss."""
    proxy_protocol: bool = False
    """Connections open with a PROXY header (version 1 or 2) that names the real client; before TLS, where
    the listener has it."""
    proxy_sources: Annotated[Networks, Field(validate_default=True)] = ("127.0.0.0/8", "::1/128")  # type: ignore[assignment]
    """With ``proxy_protocol``, where the balancers are; connections from elsewhere are closed."""
    reuse_port: bool = False
    """Let several nodes on one machine share this port; the kernel spreads new connections over them."""
    tenant: TenantName = ""
    """Tenant of clients for whom no source of authentication names one; blank: the default one."""
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
            if self.tls.tenant != "none" and self.tls.verify == "none":
                raise PydanticCustomError("wanted", "tls.verify, where certificates name tenants")
            if self.tls.crl_file is not None and self.tls.ca_file is None:
                raise PydanticCustomError("wanted", "tls.ca_file, whose certificates tls.crl_file revokes")
        return self


class MqttServerConfig(Section):
    """The MQTT server of this node."""

    enable: bool = True
    """Serve MQTT clients; off: a node that only belongs to the cluster."""
    listeners: tuple[ListenerConfig, ...] = (ListenerConfig(),)
    """Listeners for clients."""


class JwtConfig(Section):
    """Clients that present a JSON Web Token as their password."""

    algorithms: tuple[Literal["HS256", "HS384", "HS512", "RS256", "ES256", "EdDSA"], ...] = ("HS256",)
    """Accepted signature algorithms of tokens; all with a secret, or all with a public key."""
    secret: SecretStr | None = None
    """For the HS algorithms, 32 bytes or more."""
    public_key_file: Path | None = None
    """For the others, PEM."""
    username_claim: str = "sub"
    """The claim that is the user name; a name in CONNECT must be the same."""
    tenant_claim: str | None = None
    """The claim that names the tenant; of a token without it, ``tenant`` of the listener counts. Nothing: no
    token names one."""
    issuer: str | None = None
    """Required issuer of a token (``iss``)."""
    audience: str | None = None
    """Required audience of a token (``aud``)."""
    leeway: Duration = 5.0
    """Tolerated clock difference for the validity times of a token."""

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

    url: HttpUrl
    """URL of the POST request."""
    timeout: PositiveDuration = 3.0
    """Timeout of its answer; without one the client gets "server unavailable"."""
    max_concurrent: Positive = 64
    """Concurrent requests; a few times as many clients wait, more get "server busy"."""
    cache: Duration = 10.0
    """Time for which an answer is cached, for the same client, user, password and address; 0s: not at all."""


class MqttAuthConfig(Section):
    """Authentication and authorization. Sources are asked in this order; the first with an answer decides."""

    allow_anonymous: bool = False
    """Let clients in that present no user name. Where no source below checks user names, one that presents a
    name is let in too, without it: it is anonymous to the ACL, to ``%u`` and to its session."""
    password_file: Path | None = None
    """Lines ``user:hash`` with argon2 hashes, written by ``gossamer passwd``; behind a hash may stand the
    user's tenant, after a space."""
    scram_file: Path | None = None
    """Lines ``user:credential``, written by ``gossamer passwd --scram``: who may authenticate by
    SCRAM-SHA-256, the enhanced authentication of version 5 (method ``SCRAM-SHA-256``)."""
    jwt: JwtConfig | None = None
    """Tokens as passwords; nothing: they are not understood."""
    http: HttpAuthConfig | None = None
    """A service that is asked; nothing: none is."""
    acl_file: Path | None = None
    """Rules for publishing and subscribing; without them, every authenticated client may do everything."""
    reload_interval: PositiveDuration = 5.0
    """Interval of checks for changed password, ACL and certificate files."""
    log_rate: Positive = 100
    """Decisions about clients that are logged in a second; what is beyond is counted, and how much that was
    is logged."""


class MqttLimitsConfig(Section):
    """Limits per client."""

    connect_timeout: PositiveDuration = 10.0
    """Timeout of a new connection's CONNECT."""
    max_packet_size: Annotated[PositiveSize, Field(ge=1024, le=268_435_460)] = 1024**2
    """A larger packet ends the connection."""
    max_connecting_bytes: Annotated[PositiveSize, Field(ge=1024**2)] = 64 * 1024**2
    """Bytes of clients that are not let in yet, on all listeners together; beyond, the one that has sent most
    is refused."""
    max_keepalive: PositiveDuration = 65535.0
    """Longest keep-alive; a version 5 client that asks for more gets this one."""
    max_inflight: Annotated[int, Field(gt=0, le=65535)] = 1024
    """Messages of QoS 1 and 2 on the way to one client, and from it (receive maximum)."""
    max_queued: Annotated[int, Field(ge=0)] = 10_000
    """Messages of QoS 1 and 2 kept for a session that cannot take them now."""
    max_queued_bytes: PositiveSize = 64 * 1024**2
    """Bytes of these; ``sessions.overflow`` determines what happens beyond either limit."""
    max_node_queued_bytes: PositiveSize = 1024**3
    """Bytes that the queues of all sessions of the node may take together."""
    max_write_buffer: PositiveSize = 4 * 1024**2
    """Bytes waiting for a slow client, beyond which QoS 0 messages to it are dropped and counted."""
    max_session_expiry: Duration = 7 * 86400.0
    """Longest time for which a session outlives its connection."""
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
    """Event loop lag above which new clients get "server busy"; off: never."""

    @model_validator(mode="after")
    def _fits(self) -> MqttLimitsConfig:
        if self.max_queued_bytes < self.max_packet_size:
            raise PydanticCustomError("wanted", "max_queued_bytes of max_packet_size or more")
        if self.max_node_queued_bytes < self.max_queued_bytes:
            raise PydanticCustomError("wanted", "max_node_queued_bytes of max_queued_bytes or more")
        return self


class MqttCapabilitiesConfig(Section):
    """Features of this node; clients of version 5 are informed of missing ones."""

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
    """Timeout of another node's answer with a payload, before the next one is asked."""


class MqttSessionsConfig(Section):
    """Sessions that outlive their connection."""

    persistent: bool = True
    """Keep them on disc, so that they outlive the node too; messages for them are acknowledged once there."""
    replication: Annotated[Literal["auto", "off", 3, 5, 7], Numeral] = "auto"
    """Copies at a quorum, from which another node goes on when theirs is down. auto: 3, where so many nodes
    have replicas of the ranges of keys; messages for such sessions are acknowledged once a quorum has them.
    5 or 7 outlive two or three nodes at once, where there are as many; the same at every node. off: only the
    node that a session is on has it, and serves it again once it is back."""
    on_no_quorum: Literal["local", "refuse"] = "local"
    """What becomes of clients with such sessions where no quorum can be reached, with replication auto.
    local: they are served with what this node has. refuse: CONNECT is answered with 0x88 (3.1.1: 3), after
    3 s at most, and a client whose session a quorum does not have all of is disconnected (0x89)."""
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
"""Strategy to choose a member of a ``$share`` group; implemented in :mod:`gossamer.routes.strategies`."""


class MqttConfig(Section):
    """MQTT listeners, authentication, limits and sessions."""

    server: Annotated[MqttServerConfig, Blank] = MqttServerConfig()
    auth: Annotated[MqttAuthConfig, Blank] = MqttAuthConfig()
    limits: Annotated[MqttLimitsConfig, Blank] = MqttLimitsConfig()
    capabilities: Annotated[MqttCapabilitiesConfig, Blank] = MqttCapabilitiesConfig()
    response_information: str | None = None
    """Prefix of response topics for version 5 clients that ask for response information; ``%c``
    is its client identifier, ``%u`` its user name. Example: ``replies/%c``."""
    validate_payloads: bool = False
    """Refuse messages whose payload is said to be UTF-8 (payload format indicator 1) and is not."""
    sys_interval: OptionalDuration = 10.0
    """Interval of ``$SYS/broker/…`` topics while they have subscribers; off: never."""
    sessions: Annotated[MqttSessionsConfig, Blank] = MqttSessionsConfig()
    retained: Annotated[MqttRetainedConfig, Blank] = MqttRetainedConfig()
    shared_subscription_strategy: SharedStrategy = "round_robin"
    """Which member of a ``$share`` group gets a message; chosen once, by the node where it is published,
    among the members of all nodes."""
    unconfirmed_subscriptions: Literal["hold", "refuse", "accept"] = "hold"
    """Answer to a SUBSCRIBE when a node that is not declared down has not applied the new route within
    ``limits.subscribe_wait``. hold: wait until it has, or is declared down. refuse: answer 0x80 and undo the
    subscription. accept: answer success; clients of version 5 are told which nodes are missing."""
    forwarding: Literal["sync", "async"] = "sync"
    """When a message of QoS 1 or 2 for other nodes is acknowledged: once they have dispatched it (sync), or
    once it is accepted here and on its way (async: sooner, and a node that fails may lose it)."""
