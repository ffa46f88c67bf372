"""Durations and sizes as people write them: ``15s``, ``5m``, ``1h30m``, ``500ms``; ``512``, ``64KiB``.

Rules: 1. A value is a plain number once read: seconds as float, bytes as int.  2. A bare number is seconds or
bytes.  3. ``K`` and ``KB`` are 1000 and ``KiB`` is 1024, as the standards have it.  4. What is written out
can be read back.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from gossamer.config.words import SECONDS, format_duration, format_size

_BYTES = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1000,
    "m": 1000**2,
    "mb": 1000**2,
    "g": 1000**3,
    "gb": 1000**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern}\s*)+")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_OFF = frozenset({"off", "false", "no", "never"})

_DURATION_WANTED = "a duration such as 500ms, 15s, 5m or 1h30m"
_OPTIONAL_WANTED = f"off or {_DURATION_WANTED}"
_SIZE_WANTED = "a size such as 512, 64KiB or 1MiB"


def parse_duration(text: object) -> float:
    """Seconds. Raises PydanticCustomError, which pydantic collects, where it is not a duration."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        if math.isfinite(text) and text >= 0:
            return float(text)
    elif isinstance(text, str):
        cleaned = text.strip().lower()
        if _DURATION.fullmatch(cleaned):
            # Whole milliseconds first, so that 500ms and 0.5s are one and the same float.
            parts = _DURATION_PART.findall(cleaned)
            return round(sum(float(number) * SECONDS[unit] for number, unit in parts), 6)
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", cleaned):
            return float(cleaned)
    raise PydanticCustomError("wanted", _DURATION_WANTED)


def parse_optional_duration(text: object) -> float | None:
    """Seconds, or None for ``off``."""
    if text is None or text is False or (isinstance(text, str) and text.strip().lower() in _OFF):
        return None
    try:
        return parse_duration(text)
    except PydanticCustomError:
        raise PydanticCustomError("wanted", _OPTIONAL_WANTED) from None


def parse_size(text: object) -> int:
    """Bytes. Raises PydanticCustomError where it is not a size."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    if isinstance(text, str) and (found := _SIZE.fullmatch(text.strip().lower())):
        number, unit = found.groups()
        if unit in _BYTES:
            size = float(number) * _BYTES[unit]
            if size.is_integer():
                return int(size)
    raise PydanticCustomError("wanted", _SIZE_WANTED)


def _format_optional(seconds: float | None) -> str:
    return "off" if seconds is None else format_duration(seconds)


_DURATION_FORMS: list[dict[str, object]] = [
    {"type": "number", "minimum": 0},
    {"type": "string", "pattern": r"^(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+$"},
]

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": _DURATION_FORMS}),
]
"""Seconds, not negative."""

PositiveDuration = Annotated[Duration, Field(gt=0)]
"""Seconds, more than zero."""

OptionalDuration = Annotated[
    float | None,
    BeforeValidator(parse_optional_duration),
    PlainSerializer(_format_optional, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"enum": ["off", False]}, *_DURATION_FORMS]}),
]
"""Seconds, or None where it is switched off."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\d+(\.\d+)?\s*([kKmMgG]([iI]?[bB])?|[bB])?$"},
            ]
        }
    ),
]
"""Bytes, not negative."""

PositiveSize = Annotated[Size, Field(gt=0)]
"""Bytes, more than zero."""
