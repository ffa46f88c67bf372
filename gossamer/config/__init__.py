"""The configuration of a node: one schema, one YAML file, the environment on top.

``load_config("node.yaml", environ=os.environ)`` gives a frozen :class:`Config` or raises one
:class:`~gossamer.errors.ConfigError` that names every mistake. ``Config()`` alone is a node that runs.

Names are imported when they are first used: durations and sizes in words, which the whole command
needs, come without the schema, and without what reads and checks it. The sections of the discovery
strategies are named by :mod:`gossamer.config.discovery` itself.
"""

from typing import TYPE_CHECKING

from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.config.cookie import COOKIE_FILE, ENOUGH_BITS, cookie_bits, cookie_of, write_cookie
    from gossamer.config.load import config_from, json_schema, load_config, to_plain
    from gossamer.config.model import (
        ApiConfig,
        AuditConfig,
        ClusterConfig,
        Config,
        DistributionConfig,
        GossipConfig,
        GrpcConfig,
        LinkTlsConfig,
        LogConfig,
        NodeConfig,
        TracingConfig,
    )
    from gossamer.config.mqtt import (
        HttpAuthConfig,
        JwtConfig,
        ListenerConfig,
        MqttAuthConfig,
        MqttCapabilitiesConfig,
        MqttConfig,
        MqttLimitsConfig,
        MqttServerConfig,
        MqttSessionsConfig,
        SharedStrategy,
        TlsConfig,
        TlsHostConfig,
    )
    from gossamer.config.problems import expected_of, shown_of
    from gossamer.config.queues import (
        DEFAULT_GROUP,
        QueueConfig,
        QueueDeclaration,
    )
    from gossamer.config.replication import RaftConfig, RaftGroupConfig, groups_of
    from gossamer.config.services import INBOX_STORE, SERVICES, ServicesConfig, services_off
    from gossamer.config.units import (
        OptionalDuration,
        PositiveDuration,
        parse_duration,
        parse_size,
    )
    from gossamer.config.values import Autoheal, Endpoint, parse_endpoint, without_password
    from gossamer.config.words import format_duration, format_size

__all__ = [
    "COOKIE_FILE",
    "DEFAULT_GROUP",
    "ENOUGH_BITS",
    "INBOX_STORE",
    "SERVICES",
    "ApiConfig",
    "AuditConfig",
    "Autoheal",
    "ClusterConfig",
    "Config",
    "DistributionConfig",
    "Endpoint",
    "GossipConfig",
    "GrpcConfig",
    "HttpAuthConfig",
    "JwtConfig",
    "LinkTlsConfig",
    "ListenerConfig",
    "LogConfig",
    "MqttAuthConfig",
    "MqttCapabilitiesConfig",
    "MqttConfig",
    "MqttLimitsConfig",
    "MqttServerConfig",
    "MqttSessionsConfig",
    "NodeConfig",
    "OptionalDuration",
    "PositiveDuration",
    "QueueConfig",
    "QueueDeclaration",
    "RaftConfig",
    "RaftGroupConfig",
    "ServicesConfig",
    "SharedStrategy",
    "TlsConfig",
    "TlsHostConfig",
    "TracingConfig",
    "config_from",
    "cookie_bits",
    "cookie_of",
    "expected_of",
    "format_duration",
    "format_size",
    "groups_of",
    "json_schema",
    "load_config",
    "parse_duration",
    "parse_endpoint",
    "parse_size",
    "services_off",
    "shown_of",
    "to_plain",
    "without_password",
    "write_cookie",
]

__getattr__, __dir__ = lazy(__name__)
