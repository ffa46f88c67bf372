"""Keys and values of rows, restricted to data that every node reads alike.

Rules: 1. A key is ``str``, ``bytes``, ``int`` or a tuple of keys. Not ``bool`` or ``float``: Python would
take ``True``, ``1`` and ``1.0`` for one key.  2. A value is plain data: None, bool, int, float, str, bytes,
and lists and dicts of them. A container is copied on write, as by Erlang's tables, so that no caller can
change a row behind the owner's back; a tuple reads back as a list, here and on every peer.  3. The encoded
size is bounded, so that every row fits a frame.

Rejected: whatever msgspec can encode (dates, sets, dataclasses). Such a value would be one thing on the node
that wrote it and another on the nodes that decoded it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gossamer.mnesia_like.errors import BadRowError

Key = Any
Value = Any

KEY_TYPES = frozenset({str, bytes, int, tuple})
SCALARS = frozenset({str, bytes, int, float, bool, type(None)})
_MAX_DEPTH = 32
# Equal scalars of these types are the same value; 0.0 and -0.0 are equal and not the same.
COMPARABLE = frozenset({str, bytes, int, bool, type(None)})

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode
NIL = encode(None)


def canonical(table: str, value: Value) -> Value:
    """Return the value as it will be read everywhere: scalars themselves, containers copied.

    Raises:
        BadRowError: something in it is not plain data.
    """
    if type(value) in SCALARS:
        return value
    return _copy(table, value, "value", _MAX_DEPTH)


def _copy(table: str, value: Value, where: str, depth: int) -> Value:
    kind = type(value)
    if kind in SCALARS:
        return value
    if depth == 0:
        most = f"at most {_MAX_DEPTH} levels of lists and dicts"
        raise BadRowError(table, where=where, got="deeper nesting", expected=most)
    if kind is list or kind is tuple:
        return [_copy(table, item, f"{where}[{i}]", depth - 1) for i, item in enumerate(value)]
    if kind is dict:
        copy = {}
        for key, item in value.items():
            if type(key) not in KEY_TYPES or (type(key) is tuple and not is_key(key, depth - 1)):
                raise BadRowError(
                    table, where=f"a key of {where}", got=describe(key), expected="str, bytes, int or tuple"
                )
            copy[key] = _copy(table, item, f"{where}[{key!r:.40}]", depth - 1)
        return copy
    plain = "None, bool, int, float, str, bytes, or a list or dict of them"
    raise BadRowError(table, where=where, got=describe(value), expected=plain)


def is_key(key: Key, depth: int = _MAX_DEPTH) -> bool:
    """Return whether a table can have that key."""
    if type(key) is tuple:
        return depth > 0 and all(is_key(part, depth - 1) for part in key)
    return type(key) in KEY_TYPES


def describe(value: object) -> str:
    """Format type and value for an error message."""
    return f"{type(value).__name__} {value!r:.60}"
