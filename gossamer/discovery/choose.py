"""Build the strategy that the configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.config import ClusterConfig
from gossamer.config.discovery import (
    DiscoveryConfig,
    DnsDiscovery,
    EtcdDiscovery,
    K8sDiscovery,
    ManualDiscovery,
    SingletonDiscovery,
    StaticDiscovery,
)
from gossamer.discovery.dns import Dns, dnspython_lookup
from gossamer.discovery.errors import MissingExtraError
from gossamer.discovery.etcd_embedded import embedded_spec
from gossamer.discovery.k8s import K8s
from gossamer.discovery.static import Static
from gossamer.discovery.strategy import Manual, Singleton, Strategy

__all__ = ["strategy_of"]

_REACHED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - from bound to dialled


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Settings of a node that strategies need beside their own section."""

    cluster: ClusterConfig
    node: str
    data_dir: Path


def strategy_of(cluster: ClusterConfig, *, node: str, data_dir: Path = Path()) -> Strategy:
    """Return the strategy that a configuration asks for.

    Raises:
        MissingExtraError: what it needs is not installed.
    """
    section = cluster.discovery
    return BUILDERS[type(section)](section, Surroundings(cluster, node, data_dir))


def _static(_section: StaticDiscovery, around: Surroundings) -> Strategy:
    seeds = [(endpoint.host, endpoint.port) for endpoint in around.cluster.seed_endpoints]
    return Static(seeds, domain_name=around.cluster.domain_name)


def _dns(section: DnsDiscovery, around: Surroundings) -> Strategy:
    dns = section.dns
    return Dns(
        dns.name or around.cluster.domain_name,
        record_type=dns.record_type,
        port=dns.port,
        min_ttl=dns.min_ttl,
        max_ttl=dns.max_ttl,
        lookup=dnspython_lookup(nameservers=dns.nameservers, timeout=dns.timeout),
    )


def _k8s(section: K8sDiscovery, _around: Surroundings) -> Strategy:
    return K8s(section.k8s)


def _etcd(section: EtcdDiscovery, around: Surroundings) -> Strategy:
    try:
        # Not above: a node with another strategy need not have its client installed.
        from gossamer.discovery.etcd import Etcd
        from gossamer.discovery.etcd_client import EtcdClient, EtcdTls
    except ModuleNotFoundError as error:
        raise MissingExtraError(what="strategy etcd", needs="aetcd", extra="etcd") from error
    config, cluster, node = section.etcd, around.cluster, around.node
    servers = [(server.host, server.port) for server in config.servers]
    before = []
    if config.embedded:
        own = config.client_addr
        servers.insert(0, (_REACHED.get(own.host, own.host), own.port))
        before = [embedded_spec(config, node=node, host=cluster.host, data_dir=around.data_dir)]
    tls = config.tls
    client = EtcdClient(
        list(dict.fromkeys(servers)) or [("127.0.0.1", 2379)],
        timeout=config.timeout,
        username=config.username,
        password=config.password.get_secret_value() if config.password else "",
        tls=EtcdTls(tls.ca, tls.cert, tls.key, tls.server_name) if tls.on else None,
    )
    return Etcd(
        client,
        node=node,
        prefix=f"{config.prefix}/{cluster.env}",
        node_ttl=config.node_ttl,
        lock_ttl=config.lock_ttl,
        before=before,
    )


BUILDERS: Mapping[type[DiscoveryConfig], Callable[[Any, Surroundings], Strategy]] = {
    ManualDiscovery: lambda _section, _around: Manual(),
    SingletonDiscovery: lambda _section, _around: Singleton(),
    StaticDiscovery: _static,
    DnsDiscovery: _dns,
    EtcdDiscovery: _etcd,
    K8sDiscovery: _k8s,
}
"""The strategy of each section that ``cluster.discovery`` may be."""
