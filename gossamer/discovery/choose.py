"""The discovery subtree of a node: what the strategy of its configuration needs, and the loop that asks it.

::

    discovery (rest_for_one)
    ├── …              processes of the strategy: an embedded etcd, a lease
    └── autocluster    registered as ``discovery``

A strategy that needs no processes has the loop alone, without a supervisor in between.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import assert_never

from gossamer.config import ClusterConfig, Endpoint
from gossamer.config.discovery import (
    DnsDiscovery,
    EtcdConfig,
    EtcdDiscovery,
    K8sDiscovery,
    ManualDiscovery,
    SingletonDiscovery,
    StaticDiscovery,
)
from gossamer.discovery.autocluster import Autocluster
from gossamer.discovery.commands import Standalone
from gossamer.discovery.dns import Dns
from gossamer.discovery.etcd_embedded import dialled, embedded_spec
from gossamer.discovery.k8s import K8s
from gossamer.discovery.plan import JoinProgress
from gossamer.discovery.strategy import Manual, Singleton, Static, Strategy, missing_extra
from gossamer.gossip import MembershipView
from gossamer.supervisor import ChildSpec, Supervisor


def discovery_spec(
    strategy: Strategy,
    *,
    view: MembershipView,
    rng: random.Random,
    retry_interval: float,
    standalone: Standalone | None = None,
    progress: JoinProgress | None = None,
) -> ChildSpec:
    """The subtree; gossip must be registered as ``gossip``."""
    needed = strategy.children()
    start = partial(
        Autocluster.start_link,
        strategy=strategy,
        view=view,
        rng=rng,
        retry_interval=retry_interval,
        standalone=standalone,
        progress=progress,
        name="discovery",
        label="autocluster" if needed else "discovery",
    )
    if not needed:
        return ChildSpec("discovery", start)
    options = {"strategy": "rest_for_one", "intensity": 5, "period": 30.0, "label": "discovery"}
    children = [*needed, ChildSpec("autocluster", start)]
    return ChildSpec("discovery", partial(Supervisor.start_link, children, **options), type="supervisor")


def strategy_of(cluster: ClusterConfig, *, node: str, data_dir: Path = Path()) -> Strategy:
    """Return the strategy that a configuration asks for.

    Raises:
        ConfigError: what it needs is not installed.
    """
    section = cluster.discovery
    match section:
        case ManualDiscovery():
            return Manual()
        case SingletonDiscovery():
            return Singleton()
        case StaticDiscovery():
            return Static(cluster.seed_endpoints, domain_name=cluster.domain_name)
        case DnsDiscovery():
            return Dns(section.dns, name=cluster.domain_name)
        case EtcdDiscovery():
            return _etcd(section.etcd, cluster, node=node, data_dir=data_dir)
        case K8sDiscovery():
            return K8s(section.k8s)
        case _:
            assert_never(section)


def _etcd(config: EtcdConfig, cluster: ClusterConfig, *, node: str, data_dir: Path) -> Strategy:
    try:
        # Not above: a node with another strategy need not have its client installed.
        from gossamer.discovery.etcd import Etcd
        from gossamer.discovery.etcd_client import EtcdClient
    except ModuleNotFoundError as error:
        raise missing_extra("strategy", "etcd", "aetcd", "etcd") from error
    servers = list(config.servers)
    before = []
    if config.embedded:
        servers.insert(0, dialled(config.client_addr))
        before.append(embedded_spec(config, node=node, host=cluster.host, data_dir=data_dir))
    client = EtcdClient(list(dict.fromkeys(servers)) or [Endpoint("127.0.0.1", 2379)], config)
    return Etcd(client, config, node=node, env=cluster.env, before=before)
