"""The base of all answers and requests: frozen values, which are also their OpenAPI schema.

Rules: 1. Names are the field's own and stable; keys are only ever added.  2. Times are seconds: ``uptime``
counts up, ``*_at`` is since 1970.  3. No value ever holds a secret, and none a payload but a message of a
queue, which administrators may look at.  4. The schema of a duration is a contract, so it names all that is
let through: capitals, blanks around it, a bare number as text, and each word for off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Strict, WithJsonSchema

from gossamer.config import Autoheal, OptionalDuration, PositiveDuration

T = TypeVar("T")

Flag = Annotated[bool, Strict()]
"""True or false in an order; 0, "no" and the like are mistakes."""


class Value(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", from_attributes=True, use_attribute_docstrings=True
    )


class Health(Value):
    """The event loop turns."""

    status: Literal["ok"] = "ok"
    name: str


class Page(Value, Generic[T]):
    """Some of many; ``next`` gets the following ones as ``after``, and is null with the last."""

    items: tuple[T, ...]
    next: str | None = None
    missing: Mapping[str, str] = {}
    """Nodes that were asked and did not answer, and why."""


class Problem(Value):
    """A problem (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


def _any_case(*words: str) -> str:
    spelt = ("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in words)
    return rf"^\s*({'|'.join(spelt)})\s*$"


_UNIT = r"([mM][sS]|[sSmMhHdD])"
_NUMBER = r"[0-9]+(\.[0-9]+)?"
_WRITTEN: dict[str, object] = {"type": "string", "pattern": rf"^\s*(({_NUMBER}\s*{_UNIT}\s*)+|{_NUMBER}\s*)$"}
_OFF: list[dict[str, object]] = [
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
