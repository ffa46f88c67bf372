"""Tenants: how their topics, filters and client identifiers are named inside the broker.

Clients of a tenant and those of another one share nodes, tables and links, and never meet: inside the broker
each name of a tenant carries the tenant in front, behind a character that MQTT forbids in any text
(U+0000, [MQTT-1.5.4-2]). So no client can say such a name, whatever it sends, and no table, route or link
has to know of tenants. The name is put on where a packet comes in and taken off where one goes out.

========================== ==================================
what a client of ``a`` says what it is inside
========================== ==================================
``x/y``, ``#``, ``+/z``    ``$␀a/x/y``, ``$␀a/#``, ``$␀a/+/z``
``$SYS/x``, ``$own/#``     ``$␀a$/$SYS/x``, ``$␀a$/$own/#``
``$share/g/x``             ``$share/g/$␀a/x``
``$exclusive/x``           ``$exclusive/$␀a/x``
``$delayed/5/x``           ``$delayed/5/$␀a/x``
client identifier ``c``    ``a␀c``
========================== ==================================

Rules: 1. Names of the default tenant are as the client says them, and cost nothing.  2. A root begins with
``$``, so a leading wildcard of the default tenant does not match it ([MQTT-4.7.2-1]); names that begin with
``$`` have a root of their own, so one of the tenant does not match those.  3. A share group is found by its
filter too, which has the tenant in it.

Rejected: an ordinary first level such as ``tenants/a/``, which every door would have to forbid clients to
say, and one that was forgotten would be a hole; a table of routes for each tenant, which everything between
the door and the links would have to know of.
"""

from __future__ import annotations

import re

from gossamer.errors import WrongValueError, mismatch

DEFAULT = "default"
"""Name of the tenant of clients of which nothing else is said."""
LONGEST = 64
NAMES = f"the name of a tenant: 1 to {LONGEST} of A-Z, a-z, 0-9, _, . and -, a letter or digit first"
"""Names that are allowed."""
LIMITS = {
    "max_connections": 0,
    "max_publish_rate": 1,
    "max_subscriptions": 0,
    "max_retained": 0,
    "max_packet_size": 1024,
}
"""Limits of a tenant, each with its least value; see :mod:`gossamer.mqtt.tenants.limits`."""
_LARGEST = 2**31 - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MARK = "$\0"
_MARK_BYTES = _MARK.encode()
# What stands before the part of a filter or topic that matches, and that part's root.
_HEAD = r"(\$share/[^/]+/|\$exclusive/|\$delayed/[^/]*/)?"
_HEADS = re.compile(_HEAD)
_INSIDE = re.compile(_HEAD + r"\$\0([A-Za-z0-9_.-]+)\$?/")


class InvalidTenantError(WrongValueError):
    """A text that is no name of a tenant; ``where`` it was found."""

    def __init__(self, name: object, where: str) -> None:
        self.name = name
        self.where = where
        super().__init__(f"{where}: got {str(name)[:100]!r}, expected {NAMES}")


def checked(name: object, where: str) -> str:
    """Return the name of a tenant, blank for the default one, which is called ``default`` or nothing.

    Raises:
        InvalidTenantError: it is none.
    """
    if name is None or name in ("", DEFAULT):
        return ""
    if not isinstance(name, str) or len(name) > LONGEST or not _NAME.fullmatch(name):
        raise InvalidTenantError(name, where)
    return name


def within(tenant: str, text: str) -> str:
    """Return a topic name or filter of a client as it is inside; ``text`` is valid, and has no U+0000."""
    if not tenant:
        return text
    head = _HEADS.match(text)
    at = 0 if head is None else head.end()
    root = f"{_MARK}{tenant}$/" if text.startswith("$", at) else f"{_MARK}{tenant}/"
    return f"{text[:at]}{root}{text[at:]}"


def client_within(tenant: str, client_id: str) -> str:
    """Return a client identifier as it is inside."""
    return f"{tenant}\0{client_id}" if tenant else client_id


def bare(text: str) -> str:
    """Return a topic name or filter from inside as its clients say it."""
    found = _INSIDE.match(text) if text[:1] == "$" else None
    return text if found is None else (found[1] or "") + text[found.end() :]


def bare_topic(topic: bytes) -> bytes:
    """Do the same for a topic name in bytes, which is not delayed."""
    return topic[topic.index(b"/") + 1 :] if topic.startswith(_MARK_BYTES) else topic


def split(client_id: str) -> tuple[str, str]:
    """Return tenant and client identifier of one from inside; the tenant is blank for the default one."""
    tenant, mark, name = client_id.partition("\0")
    return (tenant, name) if mark else ("", client_id)


def tenant_of(text: str) -> str:
    """Return the tenant of a topic name or filter from inside; blank for the default one."""
    found = _INSIDE.match(text) if text[:1] == "$" else None
    return "" if found is None else found[2]


def limit_of(key: str, value: object) -> int | None:
    """Return a limit that is to be set; None: none.

    Raises:
        WrongValueError: no limit has this name, or the value is none of it.
    """
    if key not in LIMITS:
        raise mismatch(WrongValueError, "limit", repr(key[:100]), f"one of {', '.join(LIMITS)}")
    if value is None or value == "none":
        return None
    text, least = str(value), LIMITS[key]
    if not (text.isascii() and text.isdecimal() and len(text) < 11 and least <= int(text) <= _LARGEST):
        expected = f"a whole number from {least} to {_LARGEST}, or none"
        raise mismatch(WrongValueError, key, repr(text[:100]), expected)
    return int(text)
