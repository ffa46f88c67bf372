"""Drawings as SVG inside a page: elements, and the round numbers of an axis. Pure.

A drawing has the classes and variables of its page, so that one drawing suits a light page and a dark one,
and text stays text. Rejected: a plotting library, which would be the largest dependency of all, takes longer
to be imported than DuckDB to answer, and whose pictures cannot follow the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

__all__ = ["element", "polyline", "rect", "round_step", "text", "ticks"]


def element(name: str, content: str | None = None, /, **attributes: str | float) -> str:
    """One element; ``content`` is SVG. ``class_`` is written ``class``, ``text_anchor`` ``text-anchor``."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{words}/>" if content is None else f"<{name}{words}>{content}</{name}>"


def text(x: float, y: float, content: str, **attributes: str | float) -> str:
    """``content`` as it is, with its base line at ``y``."""
    return element("text", escape(content), x=x, y=y, **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: str | float) -> str:
    """A rectangle; a negative width is 0."""
    return element("rect", x=x, y=y, width=max(width, 0.0), height=height, **attributes)


def polyline(points: Iterable[tuple[float, float]], **attributes: str | float) -> str:
    """A line through the points."""
    path = " ".join(f"{_written(x)},{_written(y)}" for x, y in points)
    return element("polyline", points=path, **attributes)


def round_step(most: float, about: int) -> float:
    """1, 2 or 5 times a power of ten, so that at most ``about`` of them reach ``most``."""
    power = 10.0 ** math.floor(math.log10(most / about))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * about >= most * 0.999)


def ticks(most: float, *, about: int = 5) -> list[float]:
    """Round numbers from 0 to ``most`` or just above it, ``about`` as many."""
    if most <= 0:
        return [0.0, 1.0]
    step = round_step(most, about)
    return [n * step for n in range(math.ceil(round(most / step, 6)) + 1)]


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):.10g}"
