"""Building blocks of the configuration: sections, and values such as node names, hosts, ports, endpoints.

Rules: 1. Each type describes its values in one phrase, the "expected" of an error.  2. A blank
host or port means "choose one", as operators of other brokers are used to.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    IPvAnyNetwork,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from gossamer.config.units import OptionalDuration, parse_optional_duration
from gossamer.tenants import LONGEST, NAMES, InvalidTenantError, checked

LOOPBACK = "127.0.0.1"

AUTOHEAL_DELAY = 15.0
"""Delay of ``autoheal: on`` in seconds."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_IPV6 = re.compile(r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9_.-]+)?")
_ENDPOINT = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\s]+)):(?P<port>\d{1,5})")


Positive = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
# ``api:`` with nothing below it is how people leave a section at its defaults.
Blank = BeforeValidator(lambda value: {} if value is None else value)
# The environment is text, and a choice of numbers, unlike a number, is taken as it comes.
Numeral = BeforeValidator(
    lambda value: int(value) if isinstance(value, str) and value.strip().isdecimal() else value
)


class Section(BaseModel):
    """Frozen, and refuses keys that it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )


@dataclass(frozen=True, slots=True)
class Form:
    """Text that matches ``pattern`` as a whole; the error says so in words."""

    pattern: str
    wanted: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {**handler(schema), "pattern": f"^({self.pattern})$"}

    def _check(self, text: str) -> str:
        if re.fullmatch(self.pattern, text):
            return text
        raise PydanticCustomError("wanted", self.wanted)


class Endpoint(NamedTuple):
    """Address of a node: a host name or IP literal, and a port."""

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


def _tenant(value: object) -> str:
    try:
        return checked(value, "tenant")
    except InvalidTenantError:
        raise PydanticCustomError("wanted", NAMES) from None


def _port(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
        return value
    raise PydanticCustomError("wanted", "a port from 1 to 65535, or 0 to have one chosen")


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


def without_password(url: str) -> str:
    """Return ``url`` as it may be shown: its user and password, if it has them, hidden."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    _, at, host = authority.rpartition("@")
    return f"{scheme}://**********@{host}{slash}{path}" if at else url


def _listed(value: object) -> object:
    """Several values: a list, or text with commas between them."""
    if value is None:
        return ()
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


def _network(value: object) -> object:
    """Text alone: Python takes numbers for networks, too."""
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if isinstance(value, str):
        with suppress(ValueError):
            return ip_network(value.strip())
    raise PydanticCustomError("wanted", "an address or network such as 10.0.0.7 or 10.0.0.0/8")


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
    str,
    Form(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}@[A-Za-z0-9\[:][A-Za-z0-9_.:\]-]{0,253}",
        "a name and a host, such as node1@127.0.0.1",
    ),
]
"""``name@host``."""

EndpointText = Annotated[
    Endpoint,
    BeforeValidator(parse_endpoint),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^(\[[^\]]+\]|[^:\s]+):\d{1,5}$"}),
]
"""``host:port``."""

HttpUrl = Annotated[
    str,
    Field(pattern=r"^https?://[^\s/]+(/\S*)?$"),
    PlainSerializer(without_password, return_type=str, when_used="json"),
]
"""A URL; what stands before ``@`` is shown to nobody."""

TenantName = Annotated[
    str, BeforeValidator(_tenant), WithJsonSchema({"type": "string", "maxLength": LONGEST})
]
"""Name of a tenant; blank: the default one."""

Endpoints = Annotated[tuple[EndpointText, ...], BeforeValidator(_listed)]
"""Endpoints, as a list or as one comma-separated string."""

Network = Annotated[
    IPvAnyNetwork,
    BeforeValidator(_network),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9A-Fa-f.:]+(/\d{1,3})?$"}),
]
"""``address/bits``."""

Networks = Annotated[tuple[Network, ...], BeforeValidator(_listed)]
"""Networks, as a list or as one comma-separated string."""

Autoheal = Annotated[
    OptionalDuration,
    BeforeValidator(_autoheal),
    WithJsonSchema({"anyOf": [{"enum": ["on", "off", True, False]}, {"type": "number"}, {"type": "string"}]}),
]
"""Seconds the leader waits before it heals; None: off."""
