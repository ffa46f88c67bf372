"""From the configuration to the strategy that it asks for."""

from __future__ import annotations

from pathlib import Path

from gossamer.config import (
    ClusterConfig,
    DnsDiscovery,
    EtcdConfig,
    EtcdDiscovery,
    K8sDiscovery,
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


def strategy_of(cluster: ClusterConfig, *, node: str, data_dir: Path = Path()) -> Strategy:
    """The strategy that a configuration asks for.

    Raises:
        MissingExtraError: what it needs is not installed.
    """
    match cluster.discovery:
        case StaticDiscovery():
            seeds = [(endpoint.host, endpoint.port) for endpoint in cluster.seed_endpoints]
            return Static(seeds, domain_name=cluster.domain_name)
        case DnsDiscovery(dns=dns):
            return Dns(
                dns.name or cluster.domain_name,
                record_type=dns.record_type,
                port=dns.port,
                min_ttl=dns.min_ttl,
                max_ttl=dns.max_ttl,
                lookup=dnspython_lookup(nameservers=dns.nameservers, timeout=dns.timeout),
            )
        case K8sDiscovery(k8s=k8s):
            return K8s(k8s)
        case EtcdDiscovery(etcd=etcd):
            return _etcd(etcd, node=node, cluster=cluster, data_dir=data_dir)
        case SingletonDiscovery():
            return Singleton()
        case _:
            return Manual()


def _etcd(config: EtcdConfig, *, node: str, cluster: ClusterConfig, data_dir: Path) -> Strategy:
    try:
        # Not above: whoever uses another strategy need not have its client installed.
        from gossamer.discovery.etcd import Etcd
        from gossamer.discovery.etcd_client import EtcdClient, EtcdTls
    except ModuleNotFoundError as error:
        raise MissingExtraError(what="strategy etcd", needs="aetcd", extra="etcd") from error
    servers = [(server.host, server.port) for server in config.servers]
    before = []
    if config.embedded:
        own = config.client_addr
        servers.insert(0, (_REACHED.get(own.host, own.host), own.port))
        before = [embedded_spec(config, node=node, host=cluster.host, data_dir=data_dir)]
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
