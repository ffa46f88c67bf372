"""Charts as SVG inside a page, in the page's own colours.

matplotlib draws, with colours that stand for the page's (``var(--ink)``), so that one drawing suits a light
page and a dark one, and text stays text. Bars are for what is compared, lines for what goes on in time.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Chart", "draw"]

_INK, _DIM, _LINE = "#010101", "#020202", "#030303"
_SERIES = ("#040404", "#050505", "#060606")
_COLOURS = {
    _INK: "var(--ink)",
    _DIM: "var(--dim)",
    _LINE: "var(--line)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES, 1)},
}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gossamer",
    # Topics may hold what would be taken for formulas.
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "DejaVu Sans"],
    "font.size": 10.0,
    "text.color": _INK,
    "axes.labelcolor": _DIM,
    "axes.edgecolor": _LINE,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _DIM,
    "ytick.labelcolor": _INK,
    "grid.color": _LINE,
}
_LABEL = 40


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
    import logging

    import matplotlib as mpl
    from matplotlib.figure import Figure

    # It says on every machine that lacks the page's font; the reader's browser has it.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with mpl.rc_context(_STYLE):
        bars = chart.kind == "bars"
        height = 0.7 + 0.34 * len(chart.labels) if bars else 3.0
        figure = Figure(figsize=(8, height), layout="constrained")
        axes = figure.subplots()
        if bars:
            _bars(axes, chart)
        else:
            _lines(axes, chart)
        axes.spines[["top", "right"]].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    drawn = text.getvalue()
    for colour, name in _COLOURS.items():
        drawn = drawn.replace(colour, name)
    return drawn[drawn.index("<svg") :]


def _bars(axes: Any, chart: Chart) -> None:
    (values,) = chart.series.values()
    places = range(len(values))
    axes.barh(places, values, color=_SERIES[0], height=0.6)
    axes.set_yticks(places, [_short(label) for label in chart.labels])
    axes.invert_yaxis()
    axes.set_xticks([])
    for place, value in zip(places, values, strict=True):
        axes.annotate(
            f"{value:,.0f}",
            (value, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=_DIM,
        )
    axes.tick_params(left=False)
    axes.spines["bottom"].set_visible(False)
    axes.margins(x=0.12, y=0.3 / max(1, len(values)))
    if not any(values):
        axes.set_xlim(0, 1)


def _lines(axes: Any, chart: Chart) -> None:
    count = len(chart.labels)
    for (name, values), colour in zip(chart.series.items(), _SERIES, strict=False):
        axes.plot(
            range(count),
            values,
            label=_short(name),
            color=colour,
            linewidth=1.6,
            marker="o" if count < 40 else None,
            markersize=4,
        )
    step = max(1, -(-count // 7))
    axes.set_xticks(range(0, count, step), chart.labels[::step])
    axes.set_ylabel(chart.unit)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, axis="y", linewidth=0.6)
    axes.set_axisbelow(True)
    if max((max(values) for values in chart.series.values() if values), default=0) < 5:
        axes.yaxis.get_major_locator().set_params(
            integer=all(float(value).is_integer() for values in chart.series.values() for value in values)
        )
    if len(chart.series) > 1 or count > 1:
        axes.legend(frameon=False, ncols=len(chart.series), loc="upper right")


def _short(label: str) -> str:
    return label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"
