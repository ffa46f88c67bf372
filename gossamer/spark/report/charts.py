"""Charts of an audit in its page's own colours: bars for what is compared, lines for what goes on in time.

Places are those of the picture; the page's template draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gossamer.pages import Panel, Points, ticks

WIDTH, NAMES = 560, 256
"""Widths of the picture, and of the names left of the bars."""
_BAR = 22
"""A bar and its gap."""
_HEIGHT, _LEFT, _BELOW, _ABOVE = 210, 64, 26, 28
"""Height of lines, and the margins around them."""
_LABEL = 34
"""Maximum characters of a label beside the bars: two short node names and a separator."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Something to draw; a line per name."""

    kind: Literal["bars", "lines"]
    title: str
    unit: str
    labels: tuple[str, ...]
    series: Mapping[str, tuple[float, ...]]

    @property
    def height(self) -> float:
        """Height of the picture."""
        return _HEIGHT if self.kind == "lines" else _BAR * len(self.labels) + 4

    @property
    def bars(self) -> list[tuple[str, float, float, float]]:
        """Label, top, width and value of each."""
        if self.kind == "lines":
            return []
        (values,) = self.series.values()
        room, most = WIDTH - NAMES - 64, max(values, default=0.0) or 1.0
        return [
            (_short(label), place * _BAR + 4, round(room * max(0.0, value) / most, 1), value)
            for place, (label, value) in enumerate(zip(self.labels, values, strict=True))
        ]

    @property
    def times(self) -> list[tuple[float, str]]:
        """Labels below the lines, as many as there is room for."""
        count = len(self.labels)
        places = range(0, count, max(1, -(-count // 6))) if self.kind == "lines" else ()
        return [(self._x(place), self.labels[place]) for place in places]

    @property
    def panel(self) -> Panel:
        """The lines."""
        levels = ticks(max((max(values) for values in self.series.values() if values), default=0.0))
        floor = _HEIGHT - _BELOW

        def y(value: float) -> float:
            return round(floor - (floor - _ABOVE) * max(0.0, value) / levels[-1], 1)

        curves: list[tuple[str, Points]] = []
        keys = []
        for number, (name, values) in enumerate(self.series.items()):
            colour = f"s{number % 3}"
            curves.append((f"curve {colour}", [(self._x(at), y(value)) for at, value in enumerate(values)]))
            keys.append((_LEFT + 130.0 * number, 12.0, colour, _short(name)))
        return Panel(_LEFT, WIDTH - 12, [(y(level), f"{level:,g}") for level in levels], curves, keys)

    def _x(self, place: int) -> float:
        last = len(self.labels) - 1
        return round(_LEFT + (WIDTH - 12 - _LEFT) * (place / last if last else 0.5), 1)


def _short(label: str) -> str:
    return label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"
