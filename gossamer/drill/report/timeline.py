"""Timeline of a drill: phases, a lane for each node, rate and latency of each side.

Pure. It is drawn by ``timeline.svg.j2``. A lane has stretches by the node's view: ``clear`` while all peers
are up, ``doubt`` from its first suspicion, ``blind`` while it considers a peer down, ``gone`` while its
process does not run, ``still`` while that is paused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from msgspec.structs import replace

from gossamer.drill.record import DrillRecord, Mark, MarkKind, Sample
from gossamer.drill.report.found import short
from gossamer.drill.report.words import phase_name
from gossamer.pages import Panel, Points, round_step, ticks

WIDTH = 1000
LEFT = 92
RIGHT = WIDTH - 58
TOP = 44
LANE = 26
PANEL = 120
GAP = 38
POINTS = 400
"""Maximum points of a curve; more would exceed the picture's width in pixels."""
LINES = 8
"""Number of side colours in the style sheet."""

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
    "disk slow": ("open bad", _FLAG),
    "disk fast": ("open good", _FLAG),
    "bit flipped": ("line bad thick", _BARS),
    "clients moved": ("full calm", _UP),
    "said": ("full doubt", _DIAMOND),
    "client dropped": ("full bad", _DOWN),
    "client back": ("full good", _UP),
}
"""Symbol of each kind of mark: classes, and a path around 0. An action on all nodes is a line."""

Condition = Literal["clear", "doubt", "blind", "gone", "still"]
_SIGHT: dict[MarkKind, Condition] = {
    "suspected": "doubt",
    "declared down": "blind",
    "refuted": "clear",
    "saw the return": "clear",
    "left": "clear",
    "removed": "clear",
}
_PROCESS: dict[MarkKind, Condition] = {
    "process killed": "gone",
    "process stopped": "gone",
    "process ended": "gone",
    "process started": "clear",
    "process paused": "still",
    "process resumed": "clear",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time span in which the node was in ``condition``."""

    begin: float
    end: float
    condition: Condition


@dataclass(frozen=True, slots=True)
class Cluster:
    """Marks of one kind at one node that are too close to be drawn apart."""

    at: float
    node: str
    kind: MarkKind
    marks: tuple[Mark, ...]

    @property
    def words(self) -> str:
        """Tooltip of the symbol."""
        peers = ", ".join(dict.fromkeys(short(mark.peer) for mark in self.marks if mark.peer))
        detail = next((mark.detail for mark in self.marks if mark.detail), "")
        what = " ".join(filter(None, (self.kind, peers, f"({detail})" if detail and not peers else "")))
        return f"{self.at:.2f} s: {short(self.node)} {what}"


def stretches(marks: Iterable[Mark], node: str, end: float) -> list[Stretch]:
    """Return the lane of ``node`` from 0 to ``end``."""
    changes: list[tuple[float, Condition]] = [(0.0, "clear"), *_changes(marks, node)]
    ends = [min(at, end) for at, _ in changes[1:]] + [end]
    found: list[Stretch] = []
    for (at, condition), until in zip(changes, ends, strict=True):
        if found and found[-1].condition == condition:
            found[-1] = Stretch(found[-1].begin, until, condition)
        elif until > at:
            found.append(Stretch(at, until, condition))
    return found


def _changes(marks: Iterable[Mark], node: str) -> Iterator[tuple[float, Condition]]:
    """Yield the node's changes of condition, with their times."""
    peers: dict[str, Condition] = {}
    process: Condition = "clear"
    for mark in marks:
        if mark.node != node:
            continue
        if mark.kind in _PROCESS:
            process = _PROCESS[mark.kind]
            if process == "gone":
                # After a restart it has no memory of earlier suspicions.
                peers.clear()
        elif mark.kind in _SIGHT:
            peers[mark.peer] = _SIGHT[mark.kind]
        else:
            continue
        worst: Condition = next((one for one in ("blind", "doubt") if one in peers.values()), "clear")
        yield mark.at, process if process != "clear" else worst


def clusters(marks: Iterable[Mark], *, near: float) -> list[Cluster]:
    """Group marks of the same node and kind within ``near`` seconds of the first."""
    groups: list[list[Mark]] = []
    latest: dict[tuple[str, MarkKind], list[Mark]] = {}
    for mark in marks:
        group = latest.get((mark.node, mark.kind))
        if group is None or mark.at - group[0].at > near:
            group = latest[mark.node, mark.kind] = []
            groups.append(group)
        group.append(mark)
    return [Cluster(group[0].at, group[0].node, group[0].kind, tuple(group)) for group in groups]


def legend(record: DrillRecord) -> list[tuple[MarkKind, str, str]]:
    """Return the picture's symbols in the order of :data:`SYMBOLS`: meaning, classes and path."""
    there = {mark.kind for mark in record.marks if mark.node}
    return [(kind, classes, path) for kind, (classes, path) in SYMBOLS.items() if kind in there]


def picture(record: DrillRecord, *, fine: bool = True) -> dict[str, object]:
    """Build the template data. If not ``fine``, curves have fewer points, and more marks are grouped."""
    # After the last phase nothing is published any more.
    end = max(1.0, *(phase.end for phase in record.phases)) if record.phases else max(record.seconds, 1.0)
    nodes = record.plan.nodes
    marks = [mark for mark in record.marks if mark.at <= end]
    samples = [sample for sample in record.samples if sample.at + 1 <= end]
    names = [side.name for side in record.sides] or list(dict.fromkeys(one.side for one in samples))
    sides = {
        name: _thinned([one for one in samples if one.side == name], POINTS if fine else POINTS // 5)
        for name in names
    }
    side_of = {node: number for number, side in enumerate(record.sides) for node in side.nodes}
    lanes = TOP + LANE * len(nodes)
    where = {node: TOP + LANE * number + LANE / 2 for number, node in enumerate(nodes)}
    found = clusters((mark for mark in marks if mark.node in where), near=end / (200 if fine else 100))

    def x(at: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * min(max(at / end, 0.0), 1.0), 1)

    step = round_step(end, 10)
    first = lanes + 24 + GAP
    panels = [_rate(sides, x, first), _latency(sides, x, first + PANEL + GAP)] if samples else []
    return {
        "x": x,
        "width": WIDTH,
        "height": first + len(panels) * (PANEL + GAP) - GAP + 8,
        "left": LEFT,
        "lanes_end": lanes,
        "phases": [(phase, phase_name(record.plan, phase.name)) for phase in record.phases],
        "orders": [mark for mark in marks if not mark.node and mark.kind != "routes equal"],
        "lanes": [
            (y, f"s{side_of.get(node, 0) % LINES}", node, stretches(marks, node, end))
            for node, y in where.items()
        ],
        # Later ones are drawn on top: rare kinds above frequent ones.
        "signs": [
            (one, where[one.node], *SYMBOLS.get(one.kind, ("open dim", _CIRCLE)))
            for one in sorted(found, key=lambda one: one.kind in ("healed", "restarted store"))
        ],
        "ticks": [number * step for number in range(int(end / step) + 1)],
        "panels": panels,
    }


_Sides = dict[str, list[Sample]]
_Titled = tuple[str, float, Panel]
"""Title, top and content of a panel."""


def _rate(sides: _Sides, x: Callable[[float], float], top: float) -> _Titled:
    most = max((max(one.delivered, one.sent) for samples in sides.values() for one in samples), default=1)
    levels = ticks(max(most, 1), about=3)

    def y(value: float) -> float:
        return round(top + PANEL * (1 - value / levels[-1]), 1)

    curves = _curves(sides, x, lambda one: (y(one.sent), y(one.delivered)), lambda one: True)
    panel = Panel(LEFT, RIGHT, [(y(value), f"{value:,g}") for value in levels], curves, _keys(sides, top))
    return "Messages a second: delivered (line), sent (dots)", top, panel


def _latency(sides: _Sides, x: Callable[[float], float], top: float) -> _Titled:
    there = [one for samples in sides.values() for one in samples]
    low = math.floor(math.log10(min([0.001, *(one.latency_p50 for one in there if one.latency_p50 > 0)])))
    high = max(math.ceil(math.log10(max([0.01, *(one.latency_p99 for one in there)]))), low + 1)

    def y(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return round(top + PANEL * (1 - min(share, 1.0)), 1)

    # A span without deliveries is a gap.
    curves = _curves(
        sides, x, lambda one: (y(one.latency_p50), y(one.latency_p99)), lambda one: bool(one.delivered)
    )
    levels = [(y(value), f"{value * 1000:g} ms" if value < 1 else f"{value:g} s")
              for value in (10.0**power for power in range(low, high + 1))]  # fmt: skip
    panel = Panel(LEFT, RIGHT, levels, curves, _keys(sides, top))
    return "Seconds to delivery: 99th percentile (line), median (dots)", top, panel


def _curves(
    sides: _Sides,
    x: Callable[[float], float],
    values: Callable[[Sample], tuple[float, float]],
    there: Callable[[Sample], bool],
) -> list[tuple[str, Points]]:
    """Return dots and lines of each side, where ``there`` is true."""
    curves: list[tuple[str, Points]] = []
    for colour, samples in zip(_colours(sides), sides.values(), strict=True):
        for shown, run in groupby(samples, key=there):
            if shown:
                points = [(x(one.at + 0.5), *values(one)) for one in run]
                curves.append((f"curve sent {colour}", [(at, dots) for at, dots, _ in points]))
                curves.append((f"curve {colour}", [(at, line) for at, _, line in points]))
    return curves


def _colours(sides: _Sides) -> list[str]:
    return [f"s{number % LINES}" for number in range(len(sides))]


def _keys(sides: _Sides, top: float) -> list[tuple[float, float, str, str]]:
    """Return the legend beside a panel; at the ends of the lines equal sides would overlap."""
    return [
        (RIGHT + 6.0, top + 12 + 15 * number, colour, f"{name[:5]}…" if len(name) > 6 else name)
        for number, (name, colour) in enumerate(zip(sides, _colours(sides), strict=True))
    ]


def _thinned(samples: Sequence[Sample], points: int) -> list[Sample]:
    """Reduce samples to at most ``points``: mean rates, and the worst latencies."""
    step = max(1, math.ceil(len(samples) / points))
    return [_mean(samples[at : at + step]) for at in range(0, len(samples), step)]


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
