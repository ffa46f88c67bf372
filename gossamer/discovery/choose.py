"""From the configuration to the strategy that it asks for."""

from __future__ import annotations

from gossamer.config import ClusterConfig, DnsDiscovery, K8sDiscovery, SingletonDiscovery, StaticDiscovery
from gossamer.discovery.dns import Dns, dnspython_lookup
from gossamer.discovery.k8s import K8s
from gossamer.discovery.strategy import Manual, Singleton, Static, Strategy

__all__ = ["strategy_of"]


def strategy_of(cluster: ClusterConfig) -> Strategy:
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
        case SingletonDiscovery():
            return Singleton()
        case _:
            return Manual()
