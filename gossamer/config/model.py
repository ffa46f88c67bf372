"""The configuration's schema: every key, what it takes, what it is when nobody says.

Rules: 1. Every section is frozen and refuses keys it does not know.  2. Every default is such that one node
runs with no file at all, reachable from this machine only.  3. Durations are seconds and sizes bytes once
read; nothing below parses text again.  4. What is secret is a ``SecretStr``, so that it never shows in a
repr, a log or an export.  5. A key exists here only if something reads it.

Reading files and the environment is the business of :mod:`gossamer.config.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from gossamer.config.units import Duration, OptionalDuration, PositiveDuration, PositiveSize
from gossamer.config.values import AUTOHEAL_DELAY, Autoheal, Endpoints, Host, NodeName, Port

__all__ = [
    "ApiConfig",
    "AuditConfig",
    "ClusterConfig",
    "Config",
    "DiscoveryConfig",
    "DistributionConfig",
    "GossipConfig",
    "ListenerConfig",
    "LogConfig",
    "MqttAuthConfig",
    "MqttConfig",
    "MqttLimitsConfig",
    "MqttServerConfig",
    "NodeConfig",
]

LOOPBACK = "127.0.0.1"

Positive = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
# ``api:`` with nothing below it is how people leave a section at its defaults.
Blank = BeforeValidator(lambda value: {} if value is None else value)


class Section(BaseModel):
    """What all sections share."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )


class NodeConfig(Section):
    """Who this node is."""

    name: NodeName = f"node1@{LOOPBACK}"
    """Unique in the cluster, and how peers address the node: name@host."""
    cookie: SecretStr | None = None
    """What every node of the cluster must know. Blank: taken from ``.cookie`` in the data directory, made if
    missing."""
    data_dir: Path = Path("data")
    """Where what must survive is kept; each node needs its own."""


class GossipConfig(Section):
    """How fast members are probed, suspected and told about. The defaults suit a local network."""

    probe_interval: PositiveDuration = 1.0
    """How often one other member is probed."""
    probe_timeout: PositiveDuration = 0.5
    """How long a probed member may take before others are asked to probe it."""
    indirect_probes: Annotated[int, Field(ge=0)] = 3
    """How many members are asked to probe one that did not answer."""
    gossip_interval: PositiveDuration = 0.2
    """How often news is sent on top of what rides on probes."""
    gossip_nodes: Positive = 3
    """How many members get the news each time."""
    retransmit_mult: Positive = 4
    """Each piece of news is sent this many times log10(members + 1), rounded up."""
    suspicion_mult: Positive = 4
    """A suspect is declared down after at least this many times log10(members) probe intervals."""
    suspicion_max_timeout_mult: Positive = 6
    """Before others confirm it, a suspicion lasts this many times longer."""
    awareness_max: Positive = 8
    """How many times slower a node that suspects itself of being slow may probe."""
    push_pull_interval: PositiveDuration = 30.0
    """How often the full view is exchanged with one other member."""
    reconnect_interval: PositiveDuration = 5.0
    """How often a member that is down is tried again."""


class DiscoveryConfig(Section):
    """How a node finds the cluster it belongs to."""

    strategy: Literal["manual", "static"] = "static"
    """manual: ``gossamer cluster join``; static: ``cluster.seed_endpoints`` and ``cluster.domain_name``."""
    retry_interval: PositiveDuration = 5.0
    """How long to wait before seeds that did not answer are tried again."""


def _discovery(value: object) -> object:
    # ``discovery: static`` says as much as ``discovery: {strategy: static}``.
    if isinstance(value, str):
        return {"strategy": value}
    return {} if value is None else value


class ClusterConfig(Section):
    """Membership: whom this node belongs with, and where it gossips."""

    env: Annotated[str, Field(min_length=1, max_length=64)] = "gossamer"
    """Nodes of another env are not seen."""
    host: Host = LOOPBACK
    """Address that gossip binds; blank: one is chosen."""
    port: Port = 7946
    """Gossip, UDP and TCP."""
    seed_endpoints: Endpoints = ()
    """Members to join at start; a node may list itself."""
    domain_name: str = ""
    """DNS name that resolves to seeds on this node's own gossip port; resolved again at every try."""
    discovery: Annotated[DiscoveryConfig, BeforeValidator(_discovery)] = DiscoveryConfig()
    autoheal: Autoheal = AUTOHEAL_DELAY
    """on, off, or how long the leader waits before it heals a partition."""
    autoclean: OptionalDuration = 300.0
    """off, or how long a member may be down before it is removed."""
    gossip: Annotated[GossipConfig, Blank] = GossipConfig()


class DistributionConfig(Section):
    """Links between nodes."""

    host: Host = LOOPBACK
    """Address that links bind; blank: one is chosen."""
    port: Port = 4370
    """Links, TCP."""
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


class ListenerConfig(Section):
    """One address that MQTT clients connect to."""

    type: Literal["tcp"] = "tcp"
    host: Host = LOOPBACK
    """Blank: every address of this machine."""
    port: Port = 1883
    reuse_port: bool = False
    """Let several nodes on one machine share this port; the kernel spreads new connections over them."""
    max_connections: Positive = 1_000_000
    """Connections beyond this are refused."""


class MqttServerConfig(Section):
    """The MQTT server of this node."""

    enable: bool = True
    listeners: tuple[ListenerConfig, ...] = (ListenerConfig(),)


class MqttAuthConfig(Section):
    """Who may connect."""

    allow_anonymous: bool = False
    """Let clients in that present no user name."""


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
    max_write_buffer: PositiveSize = 4 * 1024**2
    """Bytes waiting for a slow client, beyond which QoS 0 messages to it are dropped and counted."""
    max_session_expiry: Duration = 7 * 86400.0
    """Longest time a session outlives its connection."""
    max_subscriptions: Positive = 10_000
    """Subscriptions of one session."""
    max_topic_levels: Positive = 128
    """Levels of a topic name or filter."""
    topic_alias_maximum: Annotated[int, Field(ge=0, le=65535)] = 64
    """Topic aliases a version 5 client may use."""
    subscribe_wait: Duration = 2.0
    """How long SUBACK waits for every live node to have applied the new route."""


class MqttConfig(Section):
    """MQTT: where, for whom, and how much."""

    server: Annotated[MqttServerConfig, Blank] = MqttServerConfig()
    auth: Annotated[MqttAuthConfig, Blank] = MqttAuthConfig()
    limits: Annotated[MqttLimitsConfig, Blank] = MqttLimitsConfig()


class ApiConfig(Section):
    """The HTTP API of this node."""

    enable: bool = True
    host: Host = LOOPBACK
    """Address it binds. It has no log-in yet, so anything but loopback hands the node to the network."""
    port: Port = 8091


class AuditConfig(Section):
    """The flow recorder."""

    enable: bool = False
    dir: Path = Path("audit")
    """Where the Parquet files go; relative paths are below the data directory."""
    sample: Fraction = 1.0
    """Share of the messages that are recorded."""


class LogConfig(Section):
    """What a node says on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
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
    log: Annotated[LogConfig, Blank] = LogConfig()
