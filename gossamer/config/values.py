"""The small values a configuration is made of: node names, hosts, ports, endpoints, autoheal's switch.

Rules: 1. Each type says what it takes in one phrase, which becomes the "expected" of an error.  2. A blank
host or port means "choose one", as operators of other brokers are used to.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, NamedTuple, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from gossamer.config.units import OptionalDuration, parse_optional_duration

__all__ = [
    "LOOPBACK",
    "Autoheal",
    "Endpoint",
    "EndpointText",
    "Endpoints",
    "Host",
    "Network",
    "Networks",
    "NodeName",
    "Port",
    "parse_endpoint",
]

Network: TypeAlias = IPv4Network | IPv6Network

LOOPBACK = "127.0.0.1"

AUTOHEAL_DELAY = 15.0
"""What ``autoheal: on`` means, in seconds."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_IPV6 = re.compile(r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9_.-]+)?")
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}@[A-Za-z0-9\[:][A-Za-z0-9_.:\]-]{0,253}")
_ENDPOINT = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\s]+)):(?P<port>\d{1,5})")


class Endpoint(NamedTuple):
    """Where a node can be reached: a host name or IP literal, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _host(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str):
        text = value.strip()
        if not text or _HOST.fullmatch(text) or _IPV6.fullmatch(text):
            return text
    raise PydanticCustomError("wanted", "an IP address or a host name, or nothing to have one chosen")


def _port(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
        return value
    raise PydanticCustomError("wanted", "a port from 1 to 65535, or 0 to have one chosen")


def _node_name(value: object) -> str:
    if isinstance(value, str) and _NODE_NAME.fullmatch(value):
        return value
    raise PydanticCustomError("wanted", "a name and a host, such as node1@127.0.0.1")


def parse_endpoint(value: object) -> Endpoint:
    """``host:port`` or ``[v6]:port``. Raises PydanticCustomError, a ValueError, on anything else."""
    if isinstance(value, Endpoint):
        return value
    if isinstance(value, (list, tuple)) and len(value) == 2:
        host, port = value
        value = f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    if isinstance(value, str) and (found := _ENDPOINT.fullmatch(value.strip())):
        port = int(found["port"])
        if 1 <= port <= 65535:
            return Endpoint(found["v6"] or found["host"], port)
    raise PydanticCustomError("wanted", "an endpoint such as 10.0.0.2:7946")


def _endpoints(value: object) -> object:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _parse_network(value: object) -> Network:
    if isinstance(value, (IPv4Network, IPv6Network)):
        return value
    if isinstance(value, str):
        try:
            return ip_network(value.strip())
        except ValueError:
            pass
    raise PydanticCustomError("wanted", "an address or network such as 10.0.0.7 or 10.0.0.0/8")


def _networks(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _autoheal(value: object) -> float | None:
    if value is True or (isinstance(value, str) and value.strip().lower() in {"on", "true", "yes"}):
        return AUTOHEAL_DELAY
    try:
        return parse_optional_duration(value)
    except PydanticCustomError:
        raise PydanticCustomError("wanted", "on, off, or a delay such as 15s") from None


Host = Annotated[str, BeforeValidator(_host)]
"""An IP literal or host name; empty: choose one."""

Port = Annotated[
    int, BeforeValidator(_port), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 65535})
]
"""0: let the system choose a free one."""

NodeName = Annotated[
    str, BeforeValidator(_node_name), WithJsonSchema({"type": "string", "pattern": f"^{_NODE_NAME.pattern}$"})
]
"""``name@host``."""

EndpointText = Annotated[
    Endpoint,
    BeforeValidator(parse_endpoint),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^(\[[^\]]+\]|[^:\s]+):\d{1,5}$"}),
]
"""``host:port``."""

Endpoints = Annotated[tuple[EndpointText, ...], BeforeValidator(_endpoints)]
"""Endpoints, as a list or as one comma-separated string."""

NetworkText = Annotated[
    Network,
    BeforeValidator(_parse_network),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9A-Fa-f.:]+(/\d{1,3})?$"}),
]
"""``address/bits``."""

Networks = Annotated[tuple[NetworkText, ...], BeforeValidator(_networks)]
"""Networks, as a list or as one comma-separated string."""

Autoheal = Annotated[
    OptionalDuration,
    BeforeValidator(_autoheal),
    WithJsonSchema({"anyOf": [{"enum": ["on", "off", True, False]}, {"type": "number"}, {"type": "string"}]}),
]
"""Seconds the leader waits before it heals; None: off."""
