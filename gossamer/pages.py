"""Pages that people read, and the charts in them: what the reports of drills and of audits share; pure.

A page is a template of its package. A chart in it has the classes and variables of the page, so that one
drawing suits a light page and a dark one, and text stays text. Rejected: a plotting library, which would be
the largest dependency of all, takes longer to be imported than DuckDB to answer, and whose pictures cannot
follow the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves in a frame, in the units of the picture; drawn by ``panel`` of ``chart.svg.j2``."""

    left: float
    right: float
    levels: list[tuple[float, str]]
    """Lines across the frame, with what stands left of them."""
    curves: list[tuple[str, Points]]
    """Classes, and points; a single one is drawn as a dot."""
    keys: list[tuple[float, float, str, str]]
    """Legend: place, class of the colour, and name."""


@cache
def environment(package: str) -> jinja2.Environment:
    """Templates of a package, and those that all share: what they are given is text, and is escaped."""
    # Here, so that what makes no page does not load it.
    import jinja2

    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader("gossamer")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


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
