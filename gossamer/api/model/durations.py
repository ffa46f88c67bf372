"""Durations in orders, with a schema that tells all that is taken.

The configuration's own schema shows how to write a duration, for editors; here it is a contract, so it names
what is let through, too: capitals, blanks around it, a bare number as text, and each word for off.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from gossamer.config import Autoheal, OptionalDuration, PositiveDuration

__all__ = ["HealDelay", "OptionalSeconds", "PositiveSeconds"]


def _any_case(*words: str) -> str:
    spelt = ("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in words)
    return rf"^\s*({'|'.join(spelt)})\s*$"


_UNIT = r"([mM][sS]|[sSmMhHdD])"
_NUMBER = r"[0-9]+(\.[0-9]+)?"
_WRITTEN: dict[str, Any] = {"type": "string", "pattern": rf"^\s*(({_NUMBER}\s*{_UNIT}\s*)+|{_NUMBER}\s*)$"}
_OFF: list[dict[str, Any]] = [
    {"enum": ["off", False, None]},
    {"type": "string", "pattern": _any_case("off", "no", "never", "false")},
]
_LASTING = [{"type": "number", "minimum": 0}, _WRITTEN]
_ON = [{"const": True}, {"type": "string", "pattern": _any_case("on", "yes", "true")}]

PositiveSeconds = Annotated[
    PositiveDuration, WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _WRITTEN]})
]
"""Seconds, or a duration such as 15s."""
OptionalSeconds = Annotated[OptionalDuration, WithJsonSchema({"anyOf": [*_OFF, *_LASTING]})]
"""The same, or off."""
HealDelay = Annotated[Autoheal, WithJsonSchema({"anyOf": [*_OFF, *_ON, *_LASTING]})]
"""The same, or on."""
