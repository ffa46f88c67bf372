"""Strategies by which a node finds its cluster, each with keys of its own.

``cluster.discovery.strategy`` determines which section is allowed beside it: ``dns`` with ``strategy: dns``,
and so on; a section of another strategy is an unknown key. ``discovery: dns`` is short for ``discovery:
{strategy: dns}``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, SecretStr

from gossamer.config.units import PositiveDuration
from gossamer.config.values import (
    LOOPBACK,
    Blank,
    Endpoint,
    Endpoints,
    EndpointText,
    Form,
    Port,
    Section,
)

_Prefix = Annotated[
    str, Form(r"[^\s/]([^\s]{0,198}[^\s/])?", "a path of 200 characters or less, such as gossamer/site1")
]
_ApiServer = Annotated[str, Form(r"|https?://[^\s]+", "a URL such as https://10.96.0.1:443")]
_Service = Annotated[
    str, Form(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "the name of a service: a-z, 0-9, - and .")
]
_Namespace = Annotated[
    str, Form(r"|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "the name of a namespace: a-z, 0-9 and -")
]
_Domain = Annotated[
    str,
    Form(r"|[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?", "a domain name such as seeds.example"),
]


class DiscoveryConfig(Section):
    """Keys that all strategies share."""

    strategy: str

    retry_interval: PositiveDuration = 5.0
    """Longest wait before the cluster is looked for again."""


class ManualDiscovery(DiscoveryConfig):
    """``gossamer cluster join`` does it."""

    strategy: Literal["manual"]


class SingletonDiscovery(DiscoveryConfig):
    """A node that is a cluster of its own and never joins another."""

    strategy: Literal["singleton"]


class StaticDiscovery(DiscoveryConfig):
    """``cluster.seed_endpoints`` and ``cluster.domain_name``."""

    strategy: Literal["static"] = "static"


RecordType = Literal["a", "aaaa", "srv"]


class DnsConfig(Section):
    """A name whose records are the members."""

    name: _Domain = ""
    """Blank: ``cluster.domain_name``."""
    record_type: RecordType = "a"
    """a and aaaa give addresses, on ``port``; srv gives hosts and ports."""
    port: Port = 0
    """Gossip port of the addresses found; 0: the same as this node's."""
    nameservers: Endpoints = ()
    """Servers to ask, as IP:port; blank: those of this system."""
    min_ttl: PositiveDuration = 1.0
    """A record is never asked for again sooner, whatever its TTL."""
    max_ttl: PositiveDuration = 60.0
    """Nor is it trusted longer."""
    timeout: PositiveDuration = 3.0
    """Timeout of one look-up, all servers together."""


class DnsDiscovery(DiscoveryConfig):
    """Records of the domain name system."""

    strategy: Literal["dns"]
    dns: Annotated[DnsConfig, Blank] = DnsConfig()


class EtcdTlsConfig(Section):
    """TLS to etcd; on as soon as any key is set. An embedded one needs ``ca``, ``cert`` and ``key``, and asks
    its peers and its clients for a certificate of that authority."""

    ca: Path | None = None
    """PEM file of the authorities that etcd's certificate may come from; blank: those of this system."""
    cert: Path | None = None
    """PEM file of this node's own certificate, where etcd asks for one; the embedded one shows it too, so it
    must be for servers and clients, and have the hosts of ``bind_addr`` and ``client_addr``."""
    key: Path | None = None
    """PEM file of its private key."""
    server_name: str = ""
    """Name to expect in etcd's certificate; blank: the host that is dialled."""

    @property
    def on(self) -> bool:
        return bool(self.ca or self.cert or self.server_name)


class EtcdConfig(Section):
    """An etcd cluster in which nodes register, or one that the nodes run themselves."""

    servers: Endpoints = ()
    """Client endpoints; tried in turn. Blank: 127.0.0.1:2379, or the embedded one."""
    prefix: _Prefix = "gossamer"
    """Keys are below ``<prefix>/<cluster.env>/``."""
    node_ttl: Annotated[PositiveDuration, Field(ge=3.0)] = 60.0
    """Time for which a node that died stays registered."""
    lock_ttl: Annotated[PositiveDuration, Field(ge=3.0)] = 15.0
    """Time for which the join lock outlives a node that died with it."""
    timeout: PositiveDuration = 3.0
    """Timeout of any one request."""
    username: str = ""
    """User name for requests; blank: none."""
    password: SecretStr | None = None
    """The user's password."""
    tls: Annotated[EtcdTlsConfig, Blank] = EtcdTlsConfig()
    embedded: bool = False
    """Run an etcd as a child of this node; the keys below are for it."""
    data_dir: Path = Path("etcd")
    """Its data; a relative path is below ``node.data_dir``."""
    bind_addr: EndpointText = Endpoint(LOOPBACK, 2380)
    """Address on which its peers reach it."""
    client_addr: EndpointText = Endpoint(LOOPBACK, 2379)
    """Address on which its clients reach it."""
    initial_cluster: str = ""
    """All embedded members: ``node1=http://10.0.0.1:2380,node2=…``, by node name, with or without the host
    part; ``https`` with ``tls``. Blank: this one alone."""
    bootstrap: bool = True
    """True: the members of ``initial_cluster`` found a new etcd cluster; false: this one was added to one
    that exists. Read only while ``data_dir`` is empty."""

    @property
    def peers(self) -> dict[str, str]:
        """URL of each embedded member, by name."""
        pairs = [part.strip().partition("=") for part in self.initial_cluster.split(",") if part.strip()]
        return {name: url for name, _, url in pairs}

    @property
    def scheme(self) -> str:
        """Scheme of the URLs of the embedded members."""
        return "https" if self.tls.on else "http"


def etcd_name(node: str, initial_cluster: str) -> str | None:
    """The name under which ``initial_cluster`` has this node: with or without its host; None: it has not."""
    if not initial_cluster:
        return node
    pairs = [part.strip().partition("=") for part in initial_cluster.split(",")]
    if any(not url.startswith(("http://", "https://")) for _, _, url in pairs):
        return None
    names = {name for name, _, _ in pairs}
    return next((name for name in (node, node.partition("@")[0]) if name in names), None)


class EtcdDiscovery(DiscoveryConfig):
    """Keys in etcd."""

    strategy: Literal["etcd"]
    etcd: Annotated[EtcdConfig, Blank] = EtcdConfig()


class K8sConfig(Section):
    """The EndpointSlices of a service of Kubernetes."""

    apiserver: _ApiServer = ""
    """URL of the API server; blank: the one that runs this pod."""
    service_name: _Service = "gossamer"
    """A headless service that selects the pods, with ``publishNotReadyAddresses: true``."""
    namespace: _Namespace = ""
    """Blank: that of this pod."""
    address_type: Literal["ip", "dns", "hostname"] = "ip"
    """ip: as the slices have it; dns: 10-0-0-1.NAMESPACE.SUFFIX; hostname: HOST.SERVICE.NAMESPACE.SUFFIX."""
    suffix: _Domain = ""
    """Blank: pod.cluster.local for dns, svc.cluster.local for hostname."""
    port_name: str = "gossip"
    """Port of the service on which pods gossip; where it has none of that name, this node's own is taken."""
    credentials: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    """Directory with ``token``, ``ca.crt`` and ``namespace``; read again for each request."""
    timeout: PositiveDuration = 5.0
    """Timeout of one request."""


class K8sDiscovery(DiscoveryConfig):
    """Endpoints of a service of Kubernetes."""

    strategy: Literal["k8s"]
    k8s: Annotated[K8sConfig, Blank] = K8sConfig()


def _with_strategy(value: object) -> object:
    if isinstance(value, str):
        return {"strategy": value}
    if value is None:
        return {"strategy": "static"}
    if isinstance(value, dict) and value.get("strategy") is None:
        return {**value, "strategy": "static"}
    return value


_AnyDiscovery = (
    ManualDiscovery | StaticDiscovery | DnsDiscovery | EtcdDiscovery | K8sDiscovery | SingletonDiscovery
)

STRATEGIES: dict[str, type[DiscoveryConfig]] = {
    get_args(section.model_fields["strategy"].annotation)[0]: section for section in get_args(_AnyDiscovery)
}
"""The section of each strategy, by name."""

Discovery = Annotated[
    Annotated[_AnyDiscovery, Field(discriminator="strategy")], BeforeValidator(_with_strategy)
]
"""One strategy with its keys, or only its name; nothing means ``static``."""
