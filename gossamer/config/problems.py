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

from gossamer.config.discovery import STRATEGIES, DnsDiscovery, EtcdDiscovery, StaticDiscovery, etcd_name
from gossamer.config.model import Config
from gossamer.config.values import Endpoint
from gossamer.errors import ConfigProblem

__all__ = ["conflicts", "expected_of", "key_path", "problems_of", "shown_of"]

Location = tuple[int | str, ...]

_SHOWN = 60


def key_path(location: Sequence[int | str]) -> str:
    """``("mqtt", "listeners", 0, "port")`` as ``mqtt.listeners[0].port``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "(top level)"


def problems_of(error: ValidationError, origins: Mapping[Location, str]) -> list[ConfigProblem]:
    """One problem for each mistake. ``origins`` names the environment variable that set a key."""
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
    """Without the strategy's name, which pydantic puts in to say which section it read."""
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
"""What a value must be, by pydantic's name for what is wrong with it."""


def expected_of(details: ErrorDetails) -> str:
    """What a value must be, for people, from what pydantic says is wrong with it."""
    if details["type"] == "union_tag_invalid":
        return f"one of {', '.join(STRATEGIES)}"
    phrase = _PHRASES.get(details["type"])
    if phrase is not None:
        return phrase.format(**details.get("ctx", {}))
    # What the types of this schema say of themselves.
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
    section: type[BaseModel] = Config
    for depth, part in enumerate(location):
        if isinstance(part, int):
            continue
        if location[:2] == ("cluster", "discovery") and depth == 1:
            tag = location[2] if len(location) > 2 else None
            if tag not in STRATEGIES:
                return None
            section = STRATEGIES[str(tag)]
            continue
        if location[:2] == ("cluster", "discovery") and depth == 2:
            continue
        field = section.model_fields.get(part)
        inner = next(_sections_in(field.annotation), None) if field else None
        if inner is None:
            return None
        section = inner
    return section


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections_in(inner)


def conflicts(config: Config) -> list[ConfigProblem]:
    """Keys that are right one by one but not together."""
    return [*_shared_ports(config), *_slow_probes(config), *_discovery(config)]


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
    discovery = config.cluster.discovery
    if isinstance(discovery, EtcdDiscovery) and discovery.etcd.embedded:
        for key in ("bind_addr", "client_addr"):
            address = getattr(discovery.etcd, key)
            yield f"cluster.discovery.etcd.{key}", address.host, address.port


def _discovery(config: Config) -> Iterator[ConfigProblem]:
    """Keys that the chosen strategy needs, and those that it would not read."""
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
    if isinstance(discovery, DnsDiscovery):
        if not (discovery.dns.name or cluster.domain_name):
            yield ConfigProblem(
                "cluster.discovery.dns.name", "nothing", "a name to look up, or cluster.domain_name"
            )
        if discovery.dns.min_ttl > discovery.dns.max_ttl:
            yield ConfigProblem(
                "cluster.discovery.dns.min_ttl",
                f"{discovery.dns.min_ttl:g} s",
                f"at most cluster.discovery.dns.max_ttl, {discovery.dns.max_ttl:g} s",
            )
    if isinstance(discovery, EtcdDiscovery):
        yield from _etcd(config, discovery)


def _etcd(config: Config, discovery: EtcdDiscovery) -> Iterator[ConfigProblem]:
    etcd = discovery.etcd
    if bool(etcd.username) != (etcd.password is not None):
        missing = "password" if etcd.username else "username"
        yield ConfigProblem(
            f"cluster.discovery.etcd.{missing}", "nothing", "both username and password, or neither"
        )
    if (etcd.tls.cert is None) != (etcd.tls.key is None):
        missing = "key" if etcd.tls.key is None else "cert"
        yield ConfigProblem(
            f"cluster.discovery.etcd.tls.{missing}", "nothing", "both cert and key, or neither"
        )
    if etcd.embedded:
        if etcd.initial_cluster and etcd_name(config.node.name, etcd.initial_cluster) is None:
            yield ConfigProblem(
                "cluster.discovery.etcd.initial_cluster",
                repr(etcd.initial_cluster)[:_SHOWN],
                f"name=http://host:port pairs, of which one is this node, {config.node.name}",
            )
        if etcd.tls.on or etcd.username:
            yield ConfigProblem(
                "cluster.discovery.etcd.embedded",
                "True beside tls or username",
                "neither: the embedded etcd speaks plain HTTP and has no users; run etcd by itself for both",
            )
    else:
        for key in ("data_dir", "bind_addr", "client_addr", "initial_cluster", "bootstrap"):
            if key in etcd.model_fields_set:
                yield ConfigProblem(
                    f"cluster.discovery.etcd.{key}",
                    "a key of the embedded etcd",
                    "no such key, or cluster.discovery.etcd.embedded: true",
                )


def _slow_probes(config: Config) -> Iterator[ConfigProblem]:
    gossip = config.cluster.gossip
    if gossip.probe_timeout >= gossip.probe_interval:
        yield ConfigProblem(
            "cluster.gossip.probe_timeout",
            f"{gossip.probe_timeout:g} s",
            f"less than cluster.gossip.probe_interval, {gossip.probe_interval:g} s",
        )
    distribution = config.distribution
    if distribution.reconnect_min > distribution.reconnect_max:
        yield ConfigProblem(
            "distribution.reconnect_min",
            f"{distribution.reconnect_min:g} s",
            f"at most distribution.reconnect_max, {distribution.reconnect_max:g} s",
        )
