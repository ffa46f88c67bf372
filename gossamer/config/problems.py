"""Turns what pydantic found wrong into problems a person can act on: the key, what came, what it takes.

Rules: 1. Every mistake is reported, in the order of the schema.  2. A value is quoted unless it is secret or
may hold what is.  3. An unknown key comes with the closest known one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from gossamer.config.discovery import (
    STRATEGIES,
    DnsDiscovery,
    EtcdConfig,
    EtcdDiscovery,
    StaticDiscovery,
    etcd_name,
)
from gossamer.config.model import Config
from gossamer.config.replication import group_conflicts
from gossamer.config.services import service_conflicts
from gossamer.config.values import Endpoint
from gossamer.errors import ConfigProblem

Location = tuple[int | str, ...]

_SHOWN = 60


def key_path(location: Sequence[int | str]) -> str:
    """``("mqtt", "listeners", 0, "port")`` as ``mqtt.listeners[0].port``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "(top level)"


def problems_of(error: ValidationError, origins: Mapping[Location, str]) -> list[ConfigProblem]:
    """Return one problem per mistake. ``origins`` names the environment variable that set a key."""
    return [_problem(details, origins) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails, origins: Mapping[Location, str]) -> ConfigProblem:
    location = details["loc"]
    plain = _untagged(location)
    if details["type"] == "union_tag_invalid":
        # pydantic blames the section; it is its strategy that is wrong.
        plain = location = (*location, "strategy")
        details["input"] = details["ctx"]["tag"]
    key = key_path(plain)
    if plain in origins:
        key = f"{key} (from {origins[plain]})"
    if details["type"] == "extra_forbidden":
        return ConfigProblem(key, "an unknown key", _known_keys(location))
    if details["type"] == "missing":
        # pydantic shows the section around it, which may hold anything.
        return ConfigProblem(key, "nothing", "a value")
    got = "a hidden value" if _is_secret(location) else shown_of(details["input"])
    return ConfigProblem(key, got, expected_of(details))


def _untagged(location: Location) -> Location:
    """Remove the strategy's name, which pydantic inserts for the section that it read."""
    if location[:2] == ("cluster", "discovery") and len(location) > 2 and location[2] in STRATEGIES:
        return location[:2] + location[3:]
    return location


_PHRASES = {
    "model_type": "a section with keys of its own",
    "model_attributes_type": "a section with keys of its own",
    "dict_type": "a section with keys of its own",
    "union_tag_not_found": "a section with keys of its own",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text",
    "path_type": "the path of a file or directory",
    "bool_type": "on or off",
    "bool_parsing": "on or off",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number, not as large",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number that is not infinite",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
    "string_too_short": "text of {min_length} characters or more",
    "string_too_long": "text of {max_length} characters or less",
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "json_invalid": "JSON",
    "too_short": "{min_length} or more",
    "too_long": "{max_length} or fewer",
}
"""Expected values, by pydantic's error type."""


def expected_of(details: ErrorDetails) -> str:
    """Describe the expected value, from pydantic's error details."""
    if details["type"] == "union_tag_invalid":
        return f"one of {', '.join(STRATEGIES)}"
    kind = details["type"]
    if kind in ("too_short", "too_long") and isinstance(details["input"], str):
        # Of a secret, which pydantic counts as it does a list.
        kind = f"string_{kind}"
    phrase = _PHRASES.get(kind)
    if phrase is not None:
        return phrase.format(**details.get("ctx", {}))
    # Expectations of this schema's own types.
    return details["msg"]


def _known_keys(location: Location) -> str:
    section = _section_at(location[:-1])
    if section is None:
        return "no key here"
    known = list(section.model_fields)
    close = get_close_matches(str(location[-1]).lower(), known, n=1, cutoff=0.6)
    return f"'{close[0]}', perhaps" if close else f"one of {', '.join(known)}"


def shown_of(value: object) -> str:
    """A value as a message quotes it; what may hold more than one is not shown."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"a section ({', '.join(map(str, value))})" if value else "an empty section"
    # Lists may hold anything, secrets included.
    if isinstance(value, (list, tuple)) and not isinstance(value, Endpoint):
        return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _is_secret(location: Location) -> bool:
    section = _section_at(location[:-1])
    if section is None or not location:
        return False
    field = section.model_fields.get(str(location[-1]))
    return field is not None and SecretStr in {field.annotation, *get_args(field.annotation)}


def _section_at(location: Location) -> type[BaseModel] | None:
    """The section that holds the keys below ``location``."""
    sections: list[type[BaseModel]] = [Config]
    for part in location:
        if len(sections) > 1:
            # One of several, and pydantic puts in which of them it read.
            sections = [STRATEGIES[str(part)]] if part in STRATEGIES else []
        elif sections and not isinstance(part, int):
            field = sections[0].model_fields.get(part)
            sections = list(_sections_in(field.annotation)) if field else []
    return sections[0] if len(sections) == 1 else None


def _sections_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections_in(inner)


_ORDERED = (
    ("cluster.gossip.probe_timeout", "less than", "cluster.gossip.probe_interval"),
    ("cluster.discovery.dns.min_ttl", "at most", "cluster.discovery.dns.max_ttl"),
    ("distribution.reconnect_min", "at most", "distribution.reconnect_max"),
)
"""Durations that bound each other."""
_TOGETHER = (
    ("cluster.discovery.etcd.username", "cluster.discovery.etcd.password"),
    ("cluster.discovery.etcd.tls.cert", "cluster.discovery.etcd.tls.key"),
)
"""Keys of which both are there, or neither."""


def conflicts(config: Config) -> list[ConfigProblem]:
    """Keys that are right one by one but not together."""
    found = [*_shared_ports(config), *_seeds(config), *group_conflicts(config.cluster.raft)]
    found += service_conflicts(config)
    for key, bound, other in _ORDERED:
        low, high = _at(config, key), _at(config, other)
        if low is not None and (low > high or (low == high and bound == "less than")):
            found.append(ConfigProblem(key, f"{low:g} s", f"{bound} {other}, {high:g} s"))
    for pair in _TOGETHER:
        missing = [key for key in pair if not _at(config, key)]
        if len(missing) == 1:
            names = " and ".join(key.rpartition(".")[2] for key in pair)
            found.append(ConfigProblem(missing[0], "nothing", f"both {names}, or neither"))
    discovery = config.cluster.discovery
    if isinstance(discovery, EtcdDiscovery):
        found += _embedded(config.node.name, discovery.etcd)
    return found


def _at(config: Config, key: str) -> Any:
    """The value at ``key``; None where another strategy has not got it."""
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part, None)
    return value


def _shared_ports(config: Config) -> Iterator[ConfigProblem]:
    taken: dict[int, list[tuple[str, str]]] = {}
    for key, host, port in _bound(config):
        if port == 0:
            continue
        for other_key, other_host in taken.get(port, ()):
            if host == other_host or not host or not other_host or "0.0.0.0" in {host, other_host}:  # noqa: S104
                yield ConfigProblem(key, str(port), f"a port of its own; {other_key} takes this one")
                break
        taken.setdefault(port, []).append((key, host))


def _bound(config: Config) -> Iterator[tuple[str, str, int]]:
    yield "cluster.port", config.cluster.host, config.cluster.port
    yield "distribution.port", config.distribution.host, config.distribution.port
    if config.mqtt.server.enable:
        for index, listener in enumerate(config.mqtt.server.listeners):
            yield f"mqtt.server.listeners[{index}].port", listener.host, listener.port
    if config.api.enable:
        yield "api.port", config.api.host, config.api.port
    if config.grpc.enable:
        yield "grpc.port", config.grpc.host, config.grpc.port
    discovery = config.cluster.discovery
    if isinstance(discovery, EtcdDiscovery) and discovery.etcd.embedded:
        for key in ("bind_addr", "client_addr"):
            address = getattr(discovery.etcd, key)
            yield f"cluster.discovery.etcd.{key}", address.host, address.port


def _seeds(config: Config) -> Iterator[ConfigProblem]:
    """Yield problems of seed settings that the strategy does not read."""
    cluster = config.cluster
    discovery = cluster.discovery
    if cluster.seed_endpoints and not isinstance(discovery, StaticDiscovery):
        yield ConfigProblem(
            "cluster.seed_endpoints",
            f"seeds beside strategy {discovery.strategy}",
            "no such key, or cluster.discovery.strategy: static, which alone reads it",
        )
    if cluster.domain_name and not isinstance(discovery, StaticDiscovery | DnsDiscovery):
        yield ConfigProblem(
            "cluster.domain_name",
            f"a name beside strategy {discovery.strategy}",
            "no such key, or cluster.discovery.strategy: static or dns, which alone read it",
        )
    if isinstance(discovery, DnsDiscovery) and not (discovery.dns.name or cluster.domain_name):
        yield ConfigProblem(
            "cluster.discovery.dns.name", "nothing", "a name to look up, or cluster.domain_name"
        )


def _embedded(node: str, etcd: EtcdConfig) -> Iterator[ConfigProblem]:
    section = "cluster.discovery.etcd"
    if not etcd.embedded:
        for key in ("data_dir", "bind_addr", "client_addr", "initial_cluster", "bootstrap"):
            if key in etcd.model_fields_set:
                yield ConfigProblem(
                    f"{section}.{key}",
                    "a key of the embedded etcd",
                    f"no such key, or {section}.embedded: true",
                )
        return
    if etcd.initial_cluster and etcd_name(node, etcd.initial_cluster) is None:
        yield ConfigProblem(
            f"{section}.initial_cluster",
            shown_of(etcd.initial_cluster),
            f"name=http://host:port pairs, of which one is this node, {node}",
        )
    tls = etcd.tls
    if tls.on and not (tls.ca and tls.cert and tls.key):
        yield ConfigProblem(
            f"{section}.tls",
            "some of its files",
            "ca, cert and key: an embedded etcd and its peers know each other by certificates",
        )
    if any(not url.startswith(f"{etcd.scheme}:") for url in etcd.peers.values()):
        yield ConfigProblem(
            f"{section}.initial_cluster",
            shown_of(etcd.initial_cluster),
            f"{etcd.scheme}:// for all members, {'with' if tls.on else 'without'} {section}.tls",
        )
    if etcd.username:
        yield ConfigProblem(
            f"{section}.embedded",
            "True beside username",
            "no username: the embedded etcd has no users; with tls it asks for certificates, or run etcd by "
            "itself",
        )
