"""Terms: values that may travel between processes of different nodes, and their encoding.

A term is None, a bool, an int of any size, a float, str, bytes, a list, tuple, dict, set or frozenset of
terms, or a *registered message*: an instance of a dataclass, ``msgspec.Struct`` or NamedTuple that both nodes
know by the same name (:func:`register_message`). A decoded value equals the original: a tuple stays one.

Bytes from a peer never choose code. Decoding creates plain values, looks registered names up in a table, and
checks fields against their annotations where msgspec can; there is no pickle and no import by name.

A message type may gain fields at its end, with defaults: those that this node does not know are skipped, and
those that the peer did not send have their defaults. Nodes before protocol 5 refuse such a message.

Encoding copies only values that msgpack does not support; plain scalars and lists of them go to C unchanged.
Depth is bounded, because nested extensions are decoded by recursion.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gossamer.distribution.errors import TermError
from gossamer.supervisor import Cast, Crash, Down, Exit, Pid, Ref, Timeout

T = TypeVar("T")

MAX_DEPTH = 64
"""Maximum nesting of values."""

_TUPLE, _SET, _FROZENSET, _INT, _MESSAGE = 1, 2, 3, 4, 5
_ATOMS = frozenset({type(None), bool, float, str, bytes})
_INT64 = 2**63

_encode = msgspec.msgpack.Encoder().encode


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    name: str
    fields: tuple[str, ...]
    required: int
    """Number of fields without a default; they come first."""
    make: Callable[[dict[str, object]], object]


_by_type: dict[type, _Shape] = {}
_by_name: dict[str, tuple[type, _Shape]] = {}


def register_message(cls: type[T], name: str | None = None) -> type[T]:
    """Register ``cls`` as a message type under ``name`` (by default its module and name).

    Both nodes must register it. Usable as a decorator.

    Raises:
        TermError: it is no dataclass, Struct or NamedTuple, or the name belongs to another class.
    """
    shown = name or f"{cls.__module__}.{cls.__qualname__}"
    known = _by_name.get(shown)
    if known is not None and known[0] is not cls:
        raise TermError(f"the name {shown!r} for {cls.__qualname__}", "a name that no other message type has")
    fields = _fields(cls)
    given = inspect.signature(cls).parameters.values()
    required = sum(one.default is inspect.Parameter.empty for one in given)
    shape = _Shape(shown, fields, required, _maker(cls))
    _by_type[cls] = shape
    _by_name[shown] = (cls, shape)
    return cls


def encode_term(value: object) -> bytes:
    """Encode a term. Raises TermError."""
    try:
        return _encode(value if type(value) in _ATOMS else _pack(value, MAX_DEPTH))
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        # Lone surrogates in a str, and other values that cannot be encoded.
        raise TermError(f"a value that cannot be written ({error})", "a term") from None


def decode_term(data: bytes) -> object:
    """Decode the term in ``data``, which may be any bytes. Raises TermError."""
    try:
        return _Reader(MAX_DEPTH).decode(data)
    except TermError:
        raise
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise TermError(f"undecodable bytes ({str(error)[:200]})", "a term") from None


def _pack(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is int:
        if -_INT64 <= value < _INT64:
            return value
        size = value.bit_length() // 8 + 1
        return msgspec.msgpack.Ext(_INT, value.to_bytes(size, "big", signed=True))
    if depth == 0:
        raise TermError("a value that nests too deeply", f"at most {MAX_DEPTH} levels")
    depth -= 1
    if kind is list:
        return [_pack(item, depth) for item in value]
    if kind is dict:
        return {_pack_key(key, depth): _pack(item, depth) for key, item in value.items()}
    if kind is tuple:
        return msgspec.msgpack.Ext(_TUPLE, _encode([_pack(item, depth) for item in value]))
    shape = _by_type.get(kind)
    if shape is not None:
        fields = [_pack(getattr(value, field), depth) for field in shape.fields]
        return msgspec.msgpack.Ext(_MESSAGE, _encode([shape.name, *fields]))
    if kind is set or kind is frozenset:
        code = _SET if kind is set else _FROZENSET
        return msgspec.msgpack.Ext(code, _encode([_pack(item, depth) for item in value]))
    raise TermError(
        f"an instance of {kind.__module__}.{kind.__qualname__}",
        "plain data, or a message type registered with register_message()",
    )


def _pack_key(key: object, depth: int) -> object:
    if type(key) in _ATOMS or (type(key) is int and -_INT64 <= key < _INT64):
        return key
    # An Ext is not hashable, so no dict can hold one as a key.
    raise TermError(
        f"a dict key of type {type(key).__name__}", "keys that are None, bool, int, float, str or bytes"
    )


class _Reader:
    """Decoder of one value; counts its depth."""

    __slots__ = ("_depth",)

    def __init__(self, depth: int) -> None:
        self._depth = depth

    def decode(self, data: bytes | memoryview) -> object:
        return msgspec.msgpack.decode(data, ext_hook=self._ext)

    def _ext(self, code: int, data: memoryview) -> object:
        if code == _INT:
            return int.from_bytes(data, "big", signed=True)
        if self._depth == 0:
            raise TermError("a value that nests too deeply", f"at most {MAX_DEPTH} levels")
        self._depth -= 1
        try:
            items = self.decode(data)
        finally:
            self._depth += 1
        if not isinstance(items, list):
            raise TermError("an extension that holds no list", "a term")
        if code == _TUPLE:
            return tuple(items)
        if code == _SET:
            return set(items)
        if code == _FROZENSET:
            return frozenset(items)
        if code == _MESSAGE:
            return _message(items)
        raise TermError(f"extension {code}", "a term")


def _message(items: list[object]) -> object:
    name = items[0] if items else None
    known = _by_name.get(name) if isinstance(name, str) else None
    if known is None:
        raise TermError(f"a message of the type {name!r}", "a type registered here with register_message()")
    cls, shape = known
    if len(items) - 1 < shape.required:
        raise TermError(
            f"{len(items) - 1} fields for {name!r}",
            f"{shape.required} or more ({', '.join(shape.fields)}), as {cls.__qualname__} has on this node",
        )
    return shape.make(dict(zip(shape.fields, items[1:], strict=False)))


def _fields(cls: type) -> tuple[str, ...]:
    if isinstance(cls, type):
        if issubclass(cls, msgspec.Struct):
            return cls.__struct_fields__
        if dataclasses.is_dataclass(cls):
            return tuple(field.name for field in dataclasses.fields(cls) if field.init)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return tuple(cls._fields)
    raise TermError(f"{cls!r}", "a dataclass, a msgspec.Struct or a NamedTuple")


def _maker(cls: type) -> Callable[[dict[str, object]], object]:
    """Return a constructor that checks fields, if msgspec supports the annotations."""
    try:
        info = msgspec.inspect.type_info(cls)
    except (NameError, TypeError):
        return lambda values: cls(**values)
    if "CustomType" in repr(info):
        return lambda values: cls(**values)
    if isinstance(info, msgspec.inspect.NamedTupleType):
        return lambda values: msgspec.convert(list(values.values()), cls)
    if isinstance(info, msgspec.inspect.StructType):
        # Built here, since convert() takes structs by their encoded names and tags.
        types = {field.name: field.type for field in msgspec.structs.fields(cls)}
        return lambda values: cls(
            **{name: msgspec.convert(value, types[name]) for name, value in values.items()}
        )
    return lambda values: msgspec.convert(values, cls)


for _cls in (Pid, Ref, Cast, Crash, Exit, Down, Timeout):
    register_message(_cls, _cls.__name__)
