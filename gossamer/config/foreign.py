"""Configurations of other brokers, read as they stand: which of their keys are which of ours, and which are
not needed here.

BifroMQ's file keeps its sections (``clusterConfig``, ``mqttServiceConfig``, …), FluxMQ's has ``node_id``,
``etcd``, ``transport`` and ``raft`` below ``cluster``. A key whose meaning differs here is remarked upon; one
that is only spelt otherwise is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic_core import PydanticCustomError

from gossamer.config.values import LOOPBACK, parse_endpoint
from gossamer.errors import ConfigProblem

Path = tuple[str, ...]
Leaf = tuple[Path, object]
"""A key, as the sections that lead to it and its name, and its value."""

_RENAMED: dict[Path, Path] = {
    ("clusterConfig",): ("cluster",),
    ("cluster", "clusterDomainName"): ("cluster", "domain_name"),
    ("cluster", "seedEndpoints"): ("cluster", "seed_endpoints"),
    ("cluster", "discovery_strategy"): ("cluster", "discovery", "strategy"),
    ("mqttServiceConfig",): ("mqtt",),
    ("distServiceConfig", "server", "enable"): ("services", "dist_server"),
    ("distServiceConfig", "worker", "enable"): ("services", "dist_worker"),
    ("inboxServiceConfig", "server", "enable"): ("services", "inbox_server"),
    ("inboxServiceConfig", "store", "enable"): ("services", "inbox_store"),
    ("retainServiceConfig", "server", "enable"): ("services", "retain_server"),
    ("retainServiceConfig", "store", "enable"): ("services", "retain_store"),
    ("sessionDictServiceConfig", "server", "enable"): ("services", "session_dict_server"),
    ("apiServerConfig",): ("api",),
    ("RPCServerConfig",): ("distribution",),
}
_ETCD: Path = ("cluster", "etcd")
_TRANSPORT: Path = ("cluster", "transport")
_RAFT: Path = ("cluster", "raft")
_DISCOVERY: Path = ("cluster", "discovery")
_EVERY = ("0.0.0.0", "::")  # noqa: S104 - addresses that stand for all
_SHARED = {
    "bind_addr": "all groups share the links between nodes (distribution.port)",
    "data_dir": "all groups of a node share one log below node.data_dir, and its syncs",
    "peers": "a group has its replicas where cluster.raft.replication_factor and the members say",
}
"""Keys of a group that is on its own elsewhere, and why it needs none of them here."""


@dataclass(slots=True)
class Translation:
    """Keys as they are spelt here, in their order, and what there is to say of them."""

    leaves: list[Leaf] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """A sentence on each key whose meaning differs, or that is not needed."""
    problems: list[ConfigProblem] = field(default_factory=list)


def native(leaves: Iterable[Leaf]) -> Translation:
    """Return the keys as they are spelt here."""
    renamed = [(_renamed(path), value) for path, value in leaves]
    found = Translation()
    host = _host(dict(renamed).get((*_TRANSPORT, "bind_addr")))
    for path, value in renamed:
        if path[:1] == ("cluster",):
            _translate(path, value, host, found)
        else:
            found.leaves.append((path, value))
    if any(path[:2] == _ETCD for path, _ in renamed):
        found.remarks.append(
            "cluster.etcd is read as cluster.discovery: an etcd that this node runs, in which nodes find "
            "each other; who is subscribed and what is retained is in tables that nodes replicate themselves"
        )
        found.leaves += [((*_DISCOVERY, "strategy"), "etcd"), ((*_DISCOVERY, "etcd", "embedded"), True)]
    return found


def _renamed(path: Path) -> Path:
    for depth in range(1, len(path) + 1):
        if ours := _RENAMED.get(path[:depth]):
            path = ours + path[depth:]
    return path


def _host(bound: object) -> str:
    """Return the host by which other nodes reach one that binds its links there."""
    try:
        host = parse_endpoint(bound).host
    except PydanticCustomError:
        # Also where there is none; one that is wrong is refused at its key.
        return LOOPBACK
    return LOOPBACK if host in _EVERY else host


def _translate(path: Path, value: object, host: str, found: Translation) -> None:
    """Add what a key below ``cluster`` is here."""
    key = ".".join(path)
    if path == ("cluster", "node_id"):
        name = str(value) if "@" in str(value) else f"{value}@{host}"
        found.leaves.append((("node", "name"), name))
        found.remarks.append(f"{key} is read as node.name: {name}; other nodes look for it at that host")
    elif path == ("cluster", "enabled"):
        if value is False:
            found.leaves.append(((*_DISCOVERY, "strategy"), "singleton"))
    elif path == (*_TRANSPORT, "bind_addr"):
        try:
            endpoint = parse_endpoint(value)
        except PydanticCustomError as error:
            found.problems.append(ConfigProblem(key, repr(value), error.message()))
            return
        found.leaves += [(("distribution", "host"), endpoint.host), (("distribution", "port"), endpoint.port)]
    elif path[:3] == (*_TRANSPORT, "peers"):
        found.remarks.append(f"{key} is not needed: nodes tell each other their addresses by gossip")
    elif path[:2] == _ETCD and len(path) > 2:
        found.leaves.append(((*_DISCOVERY, *path[1:]), value))
    elif path[:2] == _RAFT and (why := _not_needed(path)):
        found.remarks.append(f"{key} is not needed: {why}")
        if path[2] == "groups":
            found.leaves.append((path[:4], {}))
    elif path != (*_RAFT, "enabled"):
        found.leaves.append((path, value))


def _not_needed(path: Path) -> str:
    """Return why a key of all groups, or of the one that it is in, is not needed; blank: it is."""
    keys = path[4:] if path[2:3] == ("groups",) else path[2:]
    return _SHARED.get(keys[0], "") if keys else ""
