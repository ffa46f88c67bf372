"""The base of all answers and requests: frozen values, which are also their OpenAPI schema.

Rules: 1. Names are the field's own and stable; keys are only ever added.  2. Times are seconds: ``uptime``
counts up, ``*_at`` is since 1970.  3. No value ever holds a secret or a payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Strict

__all__ = ["Flag", "Health", "Page", "Problem", "Value"]


T = TypeVar("T")


Flag = Annotated[bool, Strict()]
"""True or false in an order; 0, "no" and the like are mistakes."""


class Value(BaseModel):
    """What all answers share."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
