"""The timeline of a drill as SVG: phases as bands, a lane for each node, rate and latency of each side.

Pure. Colours are classes of the page's style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from msgspec.structs import replace

from gossamer.drill.record import DrillRecord, MarkKind, Sample
from gossamer.drill.report.lanes import Cluster, clusters, stretches
from gossamer.drill.report.promises import short
from gossamer.drill.report.words import phase_name
from gossamer.svg import element, polyline, rect, round_step, text, ticks

__all__ = ["SYMBOLS", "legend", "timeline"]

WIDTH = 1000
LEFT = 92
RIGHT = 58
TOP = 44
LANE = 26
PANEL = 120
GAP = 38
POINTS = 400
"""Of a curve, at most: more than the picture is wide in dots helps nobody."""
LINES = 8
"""Colours of sides that the style sheet knows."""

_CIRCLE = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"
_SQUARE = "M-4 -4h8v8h-8z"
_DIAMOND = "M0 -5.5L5.5 0L0 5.5L-5.5 0z"
_UP = "M0 -5.5L5 4h-10z"
_DOWN = "M0 5.5L5 -4h-10z"
_CROSS = "M-4.5 -4.5L4.5 4.5M4.5 -4.5L-4.5 4.5"
_TICK = "M0 -6V6"
_CHECK = "M-5 0L-1.5 4L5 -4.5"
_BARS = "M-2.5 -5V5M2.5 -5V5"
_FLAG = "M-3 6V-6L5 -3L-3 0"

SYMBOLS: dict[MarkKind, tuple[str, str]] = {
    "suspected": ("open doubt", _CIRCLE),
    "refuted": ("open good", _CIRCLE),
    "declared down": ("full bad", _CIRCLE),
    "link lost": ("line bad", _TICK),
    "left": ("open dim", _SQUARE),
    "removed": ("line dim", _CROSS),
    "saw the return": ("full good", _CIRCLE),
    "link back": ("line good", _TICK),
    "routes equal": ("full calm", _SQUARE),
    "partition raised": ("open heal", _UP),
    "confirmed": ("open heal", _DIAMOND),
    "plan made": ("full heal", _DIAMOND),
    "coordinates": ("full heal", _UP),
    "restarted store": ("full heal", _SQUARE),
    "healed": ("line good thick", _CHECK),
    "ready": ("open calm", _SQUARE),
    "process killed": ("line ink thick", _CROSS),
    "process ended": ("line bad thick", _CROSS),
    "process stopped": ("full ink", _SQUARE),
    "process started": ("full ink", _UP),
    "process paused": ("line ink thick", _BARS),
    "process resumed": ("full ink", "M-3.5 -5L5 0L-3.5 5z"),
    "clock set": ("full dim", _FLAG),
    "disk full": ("full bad", _FLAG),
    "disk free": ("full good", _FLAG),
    "client dropped": ("full bad", _DOWN),
    "client back": ("full good", _UP),
}
"""How each kind of mark is drawn: classes, and a path around 0. What the drill did to all is a line."""


def timeline(record: DrillRecord, *, name: str, fine: bool = True) -> str:
    """The whole picture; ``name`` keeps its identifiers apart from those of others on the page.

    Where it is not ``fine``, curves have fewer points and more marks fall together.
    """
    # What comes after the last phase is the drill's own: nothing is published any more.
    end = max([1.0, *(phase.end for phase in record.phases)]) if record.phases else max(record.seconds, 1.0)
    record = replace(
        record,
        samples=_thinned(
            [sample for sample in record.samples if sample.at + 1 <= end], POINTS if fine else POINTS // 5
        ),
        marks=tuple(mark for mark in record.marks if mark.at <= end),
    )
    nodes = record.plan.nodes
    lanes = TOP + LANE * len(nodes)
    panels = [panel for panel in (_rate, _latency) if record.samples]
    height = lanes + 24 + len(panels) * (PANEL + GAP) + 8

    def x(at: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(at / end, 0.0), 1.0), 1)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{name}-title {name}-desc">',
        f'<title id="{name}-title">Timeline of the drill</title>',
        f'<desc id="{name}-desc">{escape(_in_words(record))}</desc>',
        *_bands(record, x, height - 8),
        *_lanes(record, x, end, near=end / (200 if fine else 100)),
        *_axis(x, end, lanes, height - 8),
    ]
    top = lanes + 24 + GAP
    for panel in panels:
        parts += panel(record, x, top)
        top += PANEL + GAP
    return "".join((*parts, "</svg>"))


def legend(record: DrillRecord) -> list[tuple[str, str]]:
    """The symbols that the picture has, each as SVG with its meaning, in the order of :data:`SYMBOLS`."""
    there = {mark.kind for mark in record.marks if mark.node}
    return [
        (f'<svg viewBox="-8 -8 16 16" aria-hidden="true">{_path(f"sign {classes}", path)}</svg>', kind)
        for kind, (classes, path) in SYMBOLS.items()
        if kind in there
    ]


def _in_words(record: DrillRecord) -> str:
    phases = ", ".join(
        f"{phase_name(record.plan, phase.name)} from {phase.begin:.1f} to {phase.end:.1f} s"
        for phase in record.phases
    )
    return f"Phases: {phases}. A lane for each node with its marks, which are listed under All marks."


# -- the ground


def _bands(record: DrillRecord, x: Callable[[float], float], bottom: float) -> Iterator[str]:
    for phase in record.phases:
        left, right = x(phase.begin), x(phase.end)
        name = phase_name(record.plan, phase.name)
        said = f"{name}, {phase.end - phase.begin:.1f} s"
        yield _titled(said, rect(left, 22, right - left, bottom - 22, class_=f"band {phase.name}"))
        if right - left > 8 * len(name):
            yield _text(left + 5, 16, name, "label")
    for mark in record.marks:
        if not mark.node and mark.kind != "routes equal":
            at = x(mark.at)
            words = " ".join(filter(None, (mark.kind, mark.detail)))
            yield _titled(f"{mark.at:.2f} s: {words}", _path("order", f"M{at} 22V{bottom}"))


def _axis(x: Callable[[float], float], end: float, top: float, bottom: float) -> Iterator[str]:
    step = round_step(end, 10)
    for number in range(int(end / step) + 1):
        at = number * step
        yield _path("grid", f"M{x(at)} {top}V{top + 5}")
        yield _text(x(at), top + 18, f"{at:g} s" if number == 0 else f"{at:g}", "tick middle")


def _lanes(record: DrillRecord, x: Callable[[float], float], end: float, *, near: float) -> Iterator[str]:
    side_of = {node: number for number, side in enumerate(record.sides) for node in side.nodes}
    where: dict[str, float] = {}
    for number, node in enumerate(record.plan.nodes):
        middle = where[node] = TOP + LANE * number + LANE / 2
        yield rect(LEFT - 12, middle - 9, 4, 18, class_=f"side s{side_of.get(node, 0) % LINES}")
        yield _text(LEFT - 18, middle + 4, short(node), "label end")
        for stretch in stretches(record.marks, node, end):
            left = x(stretch.begin)
            yield rect(left, middle - 3, x(stretch.end) - left, 6, class_=f"lane {stretch.condition}")
    # What is drawn last lies on top: rare kinds above frequent ones.
    found = clusters([mark for mark in record.marks if mark.node in where], near=near)
    for cluster in sorted(found, key=lambda cluster: cluster.kind in ("healed", "restarted store")):
        classes, path = SYMBOLS.get(cluster.kind, ("open dim", _CIRCLE))
        at = f"translate({x(cluster.at)} {where[cluster.node]:g})"
        yield _titled(_words(cluster), _path(f"sign {classes}", path), transform=at)


def _words(cluster: Cluster) -> str:
    peers = ", ".join(dict.fromkeys(short(mark.peer) for mark in cluster.marks if mark.peer))
    detail = next((mark.detail for mark in cluster.marks if mark.detail), "")
    what = " ".join(filter(None, (cluster.kind, peers, f"({detail})" if detail and not peers else "")))
    return f"{cluster.at:.2f} s: {short(cluster.node)} {what}"


# -- panels


def _rate(record: DrillRecord, x: Callable[[float], float], top: float) -> Iterator[str]:
    levels = ticks(
        max((max(sample.delivered, sample.sent, 1) for sample in record.samples), default=1), about=3
    )

    def y(value: float) -> float:
        return round(top + PANEL - PANEL * value / levels[-1], 1)

    yield _text(LEFT, top - 8, "Messages a second: delivered (line), sent (dots)", "label")
    yield from _levels(((value, f"{value:,g}") for value in levels), y)
    for number, (name, samples) in enumerate(_by_side(record)):
        colour = f"s{number % LINES}"
        sent = [(x(sample.at + 0.5), y(sample.sent)) for sample in samples]
        yield _curve(sent, f"curve sent {colour}")
        yield _curve([(x(sample.at + 0.5), y(sample.delivered)) for sample in samples], f"curve {colour}")
        yield from _end_label(number, name, top)


def _latency(record: DrillRecord, x: Callable[[float], float], top: float) -> Iterator[str]:
    values = [sample.latency_p99 for sample in record.samples if sample.latency_p99 > 0]
    low = math.floor(math.log10(min([*(s.latency_p50 for s in record.samples if s.latency_p50 > 0), 0.001])))
    high = max(math.ceil(math.log10(max([*values, 0.01]))), low + 1)

    def y(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return round(top + PANEL - PANEL * min(share, 1.0), 1)

    yield _text(LEFT, top - 8, "Seconds to delivery: 99th percentile (line), median (dots)", "label")
    yield from _levels(((10.0**power, _seconds(10.0**power)) for power in range(low, high + 1)), y)
    for number, (name, samples) in enumerate(_by_side(record)):
        colour = f"s{number % LINES}"
        for of, classes in (("latency_p50", "curve sent"), ("latency_p99", "curve")):
            for run in _runs(samples):
                points = [(x(sample.at + 0.5), y(getattr(sample, of))) for sample in run]
                yield _curve(points, f"{classes} {colour}")
        yield from _end_label(number, name, top)


def _runs(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """Stretches in which something was delivered, without the gaps."""
    run: list[Sample] = []
    for sample in samples:
        if sample.delivered:
            run.append(sample)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _by_side(record: DrillRecord) -> list[tuple[str, list[Sample]]]:
    names = [side.name for side in record.sides] or list(
        dict.fromkeys(sample.side for sample in record.samples)
    )
    return [(name, [sample for sample in record.samples if sample.side == name]) for name in names]


def _thinned(samples: Sequence[Sample], points: int) -> tuple[Sample, ...]:
    """At most so many points a side; of several seconds the mean rates, and the worst of what was late."""
    found: list[Sample] = []
    for side in dict.fromkeys(sample.side for sample in samples):
        own = [sample for sample in samples if sample.side == side]
        step = max(1, math.ceil(len(own) / points))
        found += (_mean(own[at : at + step]) for at in range(0, len(own), step))
    return tuple(found)


def _mean(samples: Sequence[Sample]) -> Sample:
    count = len(samples)
    return replace(
        samples[0],
        at=samples[0].at + (count - 1) / 2,
        sent=sum(sample.sent for sample in samples) // count,
        delivered=math.ceil(sum(sample.delivered for sample in samples) / count),
        latency_p50=sum(sample.latency_p50 for sample in samples) / count,
        latency_p99=max(sample.latency_p99 for sample in samples),
    )


def _levels(levels: Iterable[tuple[float, str]], y: Callable[[float], float]) -> Iterator[str]:
    for value, label in levels:
        yield _path("grid", f"M{LEFT} {y(value)}H{WIDTH - RIGHT}")
        yield _text(LEFT - 8, y(value) + 4, label, "tick end")


def _end_label(number: int, name: str, top: float) -> Iterator[str]:
    # Beside the panel and not at the end of each line, where equal sides would cover each other.
    at = top + 12 + 15 * number
    yield _path(f"curve s{number % LINES}", f"M{WIDTH - RIGHT + 6} {at - 4}h10")
    yield _text(WIDTH - RIGHT + 20, at, name if len(name) < 7 else f"{name[:5]}…", "tick")


def _curve(points: Sequence[tuple[float, float]], classes: str) -> str:
    if len(points) == 1:
        points = [points[0], (points[0][0] + 2, points[0][1])]
    return polyline(points, class_=classes) if points else ""


# -- pieces


def _text(left: float, base: float, content: str, classes: str) -> str:
    return text(left, base, content, class_=classes)


def _path(classes: str, path: str) -> str:
    return element("path", class_=classes, d=path)


def _titled(title: str, content: str, **attributes: str) -> str:
    return element("g", element("title", escape(title)) + content, **attributes)


def _seconds(value: float) -> str:
    return f"{value * 1000:g} ms" if value < 1 else f"{value:g} s"
