"""Rendering of a value as one short line, for operators of a running node.

Rules: 1. Never a secret: a field or a key with a name like one shows as ``***``, and bytes show as their
length, since their content is unknown.  2. The start of an MQTT payload is shown, since it helps debugging:
a field ``payload`` beside a field ``topic``.  3. Bounded in length, breadth and depth, whatever the value; no
code of the value's class runs, except of the classes named here.

Rejected: a truncated ``repr``, which shows everything that its author forgot to hide, and renders a table of
a million rows before it is truncated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice

import msgspec

from gossamer.supervisor.values import Crash, Pid, Ref

SECRETS = frozenset(
    {
        "authorization",
        "cookie",
        "credential",
        "credentials",
        "key",
        "keys",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "private",
        "secret",
        "secrets",
        "token",
        "tokens",
    }
)
"""Words that mark the name of a field or a key as secret."""

HIDDEN = "***"
LINE = 200
"""Maximum characters of a whole value."""
TEXT = 60
"""Maximum characters of a text in it."""
PAYLOAD = 24
"""Maximum bytes of an MQTT payload."""
BREADTH = 6
DEPTH = 4


class SafeText(str):
    """Text that is known to contain no secret; it is shown without quotes."""

    __slots__ = ()


def rendered(value: object) -> str:
    """Return ``value`` on one line of at most 200 characters, without secrets."""
    line = _rendered(value, DEPTH)
    return line if len(line) <= LINE else line[: LINE - 1] + "…"


def is_secret(name: str) -> bool:
    """Return True for a name like a secret's: ``password``, ``api_token``, ``cluster-key``."""
    return not SECRETS.isdisjoint(name.lower().replace("-", "_").split("_"))


def _rendered(value: object, depth: int) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return "<a big number>"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, SafeText):
        return str(value)
    if isinstance(value, str):
        return repr(value if len(value) <= TEXT else value[: TEXT - 1] + "…")
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, Pid | Ref):
        return str(value)
    if isinstance(value, Crash):
        return f"Crash({str(value)[:TEXT]!r})"
    kind = type(value).__name__
    if depth == 0:
        return f"{kind}(…)"
    if isinstance(value, msgspec.Struct):
        return f"{kind}({_fields(value, value.__struct_fields__, depth)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{kind}({_fields(value, [field.name for field in dataclasses.fields(value)], depth)})"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{kind}({_fields(value, value._fields, depth)})"
    if isinstance(value, dict):
        return "{" + _some((_pair(key, held, depth) for key, held in value.items()), len(value)) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        inside = _some((_rendered(part, depth - 1) for part in value), len(value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return f"<{kind}>"


def _fields(value: object, names: Iterable[str], depth: int) -> str:
    held: Mapping[str, object] = {name: getattr(value, name, None) for name in islice(names, 4 * BREADTH)}
    return ", ".join(f"{name}={_field(name, inner, held, depth)}" for name, inner in held.items())


def _field(name: str, value: object, beside: Mapping[str, object], depth: int) -> str:
    if is_secret(name):
        return HIDDEN
    if name == "payload" and "topic" in beside and isinstance(value, bytes | bytearray | memoryview):
        start = bytes(value[:PAYLOAD])
        return repr(start) if len(value) <= PAYLOAD else f"{start!r}… <{len(value)} bytes>"
    return _rendered(value, depth - 1)


def _pair(key: object, value: object, depth: int) -> str:
    hidden = isinstance(key, str) and is_secret(key)
    return f"{_rendered(key, depth - 1)}: {HIDDEN if hidden else _rendered(value, depth - 1)}"


def _some(parts: Iterable[str], number: int) -> str:
    first = ", ".join(islice(parts, BREADTH))
    return first if number <= BREADTH else f"{first}, … {number - BREADTH} more"
