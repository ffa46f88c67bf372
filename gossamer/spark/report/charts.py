"""Charts of an audit in its page's own colours: bars for what is compared, lines for what goes on in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gossamer.svg import element, polyline, rect, text, ticks

__all__ = ["Chart", "draw"]

_WIDTH, _BAR, _NAMES = 560, 22, 200
"""Of the picture, of a bar and its gap, and of what stands left of the bars."""
_HEIGHT, _LEFT, _BELOW, _ABOVE = 210, 48, 26, 28
"""Of lines, and the room around them."""
_LABEL = 30


@dataclass(frozen=True, slots=True)
class Chart:
    """Something to draw: ``kind`` is bars or lines; a line per name."""

    kind: str
    title: str
    unit: str
    labels: tuple[str, ...]
    series: Mapping[str, tuple[float, ...]]


def draw(chart: Chart) -> str:
    """The chart as an ``<svg>`` element."""
    bars = chart.kind == "bars"
    height = _BAR * len(chart.labels) + 4 if bars else _HEIGHT
    inside = "".join(_bars(chart) if bars else _lines(chart))
    return element("svg", inside, viewBox=f"0 0 {_WIDTH} {height}", role="img", font_size="12")


def _text(x: float, y: float, content: str, *, anchor: str = "start", colour: str = "dim") -> str:
    return text(x, y, content, text_anchor=anchor, fill=f"var(--{colour})")


def _bars(chart: Chart) -> Iterator[str]:
    (values,) = chart.series.values()
    room = _WIDTH - _NAMES - 64
    most = max(values, default=0.0) or 1.0
    for place, (label, value) in enumerate(zip(chart.labels, values, strict=True)):
        y, width = place * _BAR + 4, room * max(0.0, value) / most
        yield _text(_NAMES - 8, y + 13, _short(label), anchor="end", colour="ink")
        yield rect(_NAMES, y, width, _BAR - 7, fill="var(--series-1)")
        yield _text(_NAMES + width + 6, y + 13, f"{value:,.0f}")


def _lines(chart: Chart) -> Iterator[str]:
    marks = ticks(max((max(values) for values in chart.series.values() if values), default=0.0))
    count = len(chart.labels)
    right, floor = _WIDTH - 12, _HEIGHT - _BELOW

    def at(place: int, value: float) -> tuple[float, float]:
        x = _LEFT + (right - _LEFT) * (place / (count - 1) if count > 1 else 0.5)
        return x, floor - (floor - _ABOVE) * max(0.0, value) / marks[-1]

    for mark in marks:
        y = at(0, mark)[1]
        yield element("line", x1=_LEFT, x2=right, y1=y, y2=y, stroke="var(--line)")
        yield _text(_LEFT - 6, y + 4, f"{mark:,g}", anchor="end")
    for place in range(0, count, max(1, -(-count // 6))):
        yield _text(at(place, 0)[0], _HEIGHT - 6, chart.labels[place], anchor="middle")
    for number, (name, values) in enumerate(chart.series.items()):
        colour, x = f"var(--series-{1 + number % 3})", _LEFT + 130 * number
        spots = [at(place, value) for place, value in enumerate(values)]
        yield polyline(spots, fill="none", stroke=colour, stroke_width="1.8")
        if count < 40:
            yield from (element("circle", cx=a, cy=b, r=2.5, fill=colour) for a, b in spots)
        yield rect(x, 6, 16, 4, fill=colour)
        yield _text(x + 22, 12, _short(name), colour="ink")


def _short(label: str) -> str:
    return label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"
