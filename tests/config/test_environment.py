"""Every key of the schema by environment, generated from the schema: it takes what the file takes there."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from gossamer.config import Config, config_from
from gossamer.config.discovery import STRATEGIES
from gossamer.errors import ConfigError

Location = tuple[int | str, ...]

TRIED: tuple[Any, ...] = (
    *(0, 1, 2, 3, 7, 20, 2048, 9999, 70_000, 2 * 1024**3, 0.25, True, False),
    *("on", "off", "7s", "500ms", "2KiB", "2GiB", "text", "0123", "1", "true", "a/b", "s" * 32, "7" * 32),
    *("me@there", "10.0.0.1:1", "10.0.0.1:1,[::1]:2", "10.0.0.0/8", "https://x.org/y", "node1=http://h:1"),
    *(["a", "b"], [], ["10.0.0.1:1"], ["10.0.0.0/8", "::1/128"], ["HS256", "HS512"]),
    {"a.org": {"cert_file": "c", "key_file": "k"}},
    {"a": "b"},
    {"hot": {"replication_factor": 1}},
)
"""What is tried everywhere, next to the words that a key takes; where the file takes it, it counts."""

FILES = {"cert_file": "c", "key_file": "k"}
TLS = {"type": "tls", "tls": FILES | {"ca_file": "a", "verify": "require"}}
EMBEDDED = ("data_dir", "bind_addr", "client_addr", "initial_cluster", "bootstrap")
BESIDE: dict[Location, dict[str, Any]] = {
    ("mqtt", "server", "listeners", 0): {"mqtt": {"server": {"listeners": [TLS]}}},
    ("mqtt", "server", "listeners", 0, "type"): {"mqtt": {"server": {"listeners": [{"port": 7}]}}},
    ("mqtt", "server", "listeners", 0, "socket"): {"mqtt": {"server": {"listeners": [{"type": "unix"}]}}},
    ("mqtt", "auth", "jwt"): {"mqtt": {"auth": {"jwt": {"secret": "s" * 32}}}},
    ("mqtt", "auth", "jwt", "public_key_file"): {"mqtt": {"auth": {"jwt": {"algorithms": ["RS256"]}}}},
    ("mqtt", "auth", "http"): {"mqtt": {"auth": {"http": {"url": "http://x/"}}}},
    ("mqtt", "limits"): {"mqtt": {"limits": {"max_node_queued_bytes": 4 * 1024**3}}},
    ("distribution", "tls"): {"distribution": {"tls": FILES | {"ca_file": "a"}}},
    ("queues", 0): {"queues": [{"name": "jobs"}]},
    ("queues", 0, "max_age"): {"queues": [{"name": "log", "type": "stream"}]},
    ("api", "tls"): {"api": {"tls": FILES}},
    ("grpc", "tls"): {"grpc": {"tls": FILES}},
    ("cluster", "gossip", "probe_timeout"): {"cluster": {"gossip": {"probe_interval": 30}}},
    **{
        ("cluster", "discovery", "etcd", *key): {
            "cluster": {"discovery": {"strategy": "etcd", "etcd": beside}}
        }
        for key, beside in (
            (("username",), {"password": "p"}),
            (("password",), {"username": "u"}),
            (("tls", "cert"), {"tls": {"key": "k"}}),
            (("tls", "key"), {"tls": {"cert": "c"}}),
            *(((name,), {"embedded": True}) for name in EMBEDDED),
        )
    },
    **{
        ("cluster", "discovery", name): {"cluster": {"discovery": {"strategy": name}}}
        for name in ("dns", "etcd", "k8s")
    },
    ("cluster", "discovery", "dns"): {"cluster": {"discovery": {"strategy": "dns"}, "domain_name": "x.org"}},
}
"""What has to stand beside a key, or any key of a section, for the file to be right."""


def keys(section: type[BaseModel], location: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Every key below ``location`` that holds no section, with its type."""
    for name, field in section.model_fields.items():
        here = (*location, name)
        inner = list(
            _parts(field.annotation, lambda part: isinstance(part, type) and issubclass(part, BaseModel))
        )
        if here == ("cluster", "discovery"):
            for strategy in STRATEGIES.values():
                yield from keys(strategy, here)
        elif get_origin(field.annotation) is dict or not inner:
            yield here, field.annotation
        else:
            yield from keys(inner[0], (*here, 0) if get_origin(field.annotation) is tuple else here)


def _parts(annotation: Any, fits: Any) -> Iterator[Any]:
    if fits(annotation):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _parts(part, fits)


def _words(annotation: Any) -> Iterator[Any]:
    for literal in _parts(annotation, lambda part: get_origin(part) is Literal):
        yield from get_args(literal)


def _put(tree: Any, location: Location, value: Any) -> None:
    for part in location[:-1]:
        tree = tree[part] if isinstance(part, int) else tree.setdefault(part, {})
    tree[location[-1]] = value


def _beside(location: Location) -> dict[str, Any]:
    found = next((BESIDE[location[:n]] for n in range(len(location), 0, -1) if location[:n] in BESIDE), {})
    return deepcopy(found)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def _at(config: Any, location: Location) -> Any:
    for part in location:
        config = config[part] if isinstance(part, int) else getattr(config, part)
    return config


KEYS = dict(keys(Config))


@pytest.mark.parametrize("location", KEYS, ids=lambda location: ".".join(map(str, location)))
def test_a_key_by_environment_takes_what_the_file_takes(location):
    name = "GOSSAMER_" + "__".join(str(part).upper() for part in location)
    counted = 0
    for value in (*TRIED, *_words(KEYS[location])):
        tree = _beside(location)
        _put(tree, location, value)
        try:
            expected = config_from(tree)
        except ConfigError:
            continue
        found = _at(expected, location)
        if isinstance(value, bool) and isinstance(found, int | float) and not isinstance(found, bool):
            # Python's idea of a number, nobody else's.
            continue
        got = config_from(_beside(location), environ={name: _text(value)})
        assert got == expected, f"{name}={_text(value)}"
        counted += 1
    assert counted, f"nothing that was tried is a value of {name}"
