"""The picture of a drill that goes on: phases, who sees whom, traffic from side to side, marks as they come.

Drawn from what the drill publishes (``Progress``); :func:`frame` is pure but for the time it asks of it.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import product
from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from gossamer.drill import Progress
    from gossamer.drill.record import Mark

__all__ = ["Rates", "frame"]

_STEPS = ("starting", "connecting", "warm-up", "split", "heal", "after", "draining")
_SEEN = {"up": ("●", "green"), "suspect": ("◐", "yellow"), "down": ("✕", "red")}
_BAD = {
    "declared down",
    "link lost",
    "partition raised",
    "process killed",
    "process paused",
    "process ended",
    "client dropped",
    "fault applied",
    "disk full",
}
_DOUBTFUL = {"suspected"}
_GOOD = {"saw the return", "healed", "routes equal", "fault lifted", "client back", "link back", "ready"}
_STYLES = ((_BAD, "red"), (_DOUBTFUL, "yellow"), (_GOOD, "green"))
_WINDOW = 2.0
"""Seconds over which rates are taken."""
_CROWD = 16
"""From so many nodes on, the matrix is left out: it would fill the screen."""


class Rates:
    """How many messages a second go from side to side, by looking at growing counts."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Counter[tuple[str, str]], Counter[tuple[str, str]]]] = deque()
        self.sent: dict[tuple[str, str], float] = {}
        self.delivered: dict[tuple[str, str], float] = {}

    def look(self, progress: Progress) -> None:
        """Take the counts of now."""
        load, now = progress.load, progress.now()
        if load is None or now < 0:
            return
        side_of = {name: side.name for side in progress.sides for name in side.nodes}
        counts = [_by_side(counter, side_of) for counter in (load.ledger.sent, load.ledger.delivered)]
        self._looks.append((now, counts[0], counts[1]))
        while now - self._looks[0][0] > _WINDOW and len(self._looks) > 2:
            self._looks.popleft()
        then, sent, delivered = self._looks[0]
        if now > then:
            self.sent = {way: (count - sent[way]) / (now - then) for way, count in counts[0].items()}
            self.delivered = {
                way: (count - delivered[way]) / (now - then) for way, count in counts[1].items()
            }


def _by_side(counts: Counter[tuple[str, str]], side_of: dict[str, str]) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for (source, target), count in counts.items():
        sums[side_of.get(source, source), side_of.get(target, target)] += count
    return sums


def frame(progress: Progress, rates: Rates, *, height: int) -> RenderableType:
    """The whole picture, in at most ``height`` lines or little more."""
    parts: list[RenderableType] = [_title(progress), _steps(progress), Text()]
    nodes = progress.plan.nodes
    middle: list[RenderableType] = []
    if progress.load is not None:
        if len(nodes) < _CROWD:
            middle.append(_matrix(progress))
        middle.append(_traffic(progress, rates))
        parts += [Columns(middle, padding=(0, 4)), Text()]
    used = 6 + max(len(nodes) + 2, len(progress.sides) ** 2 + 4) * bool(middle)
    parts.append(_marks(progress, max(4, height - used)))
    return Group(*parts)


def _title(progress: Progress) -> Text:
    plan = progress.plan
    text = Text(f"drill {plan.kind}", style="bold")
    shape = f" {plan.shape}" if plan.shape else ""
    text.append(
        f"{shape} · {len(plan.nodes)} nodes · {plan.backend} · {plan.load:g} messages/s", style="not bold"
    )
    return text


def _steps(progress: Progress) -> Text:
    text = Text()
    here = _STEPS.index(progress.step) if progress.step in _STEPS else len(_STEPS)
    begin = progress.phases[-1].end if progress.phases else 0.0
    for number, step in enumerate(_STEPS):
        if number:
            text.append(" ─ ", style="dim")
        if number == here:
            now = progress.now()
            since = f" {now - begin:.0f} s" if progress.load is not None and now > 0 else ""
            text.append(f"{step}{since}", style="bold reverse")
        else:
            text.append(step, style="green" if number < here else "dim")
    return text


def _matrix(progress: Progress) -> Table:
    nodes = progress.plan.nodes
    table = Table(box=None, pad_edge=False, title="who sees whom", title_justify="left", min_width=13)
    table.add_column("")
    for number in range(1, len(nodes) + 1):
        table.add_column(str(number), justify="center")
    gone = {mark.node for mark in progress.marks if mark.kind in ("process killed", "process ended")} - {
        mark.node for mark in _latest_lives(progress.marks)
    }
    for number, node in enumerate(nodes, 1):
        cells = [
            Text("·", style="dim")
            if node == peer or node in gone
            else Text(*_SEEN[progress.sight.of(node, peer)])
            for peer in nodes
        ]
        table.add_row(Text(str(number), style="dim" if node in gone else ""), *cells)
    return table


def _latest_lives(marks: list[Mark]) -> list[Mark]:
    """Of each node that ended and was started, the start, where it is the later one."""
    last: dict[str, Mark] = {}
    for mark in marks:
        if mark.kind in ("process killed", "process ended", "process started"):
            last[mark.node] = mark
    return [mark for mark in last.values() if mark.kind == "process started"]


def _traffic(progress: Progress, rates: Rates) -> Table:
    load = progress.load
    assert load is not None  # noqa: S101 - drawn only with it
    table = Table(box=None, pad_edge=False, title="messages a second", title_justify="left")
    for column in ("from side", "to side", "sent", "delivered"):
        table.add_column(column, justify="left" if "side" in column else "right")
    names = [side.name for side in progress.sides]
    for way in product(names, names):
        sent, delivered = rates.sent.get(way, 0.0), rates.delivered.get(way, 0.0)
        style = "red" if sent > 1 and delivered < sent / 2 else ""
        table.add_row(*way, f"{sent:.0f}", Text(f"{delivered:.0f}", style=style))
    dropped = sum(not drop.excused for drop in progress.drops)
    table.add_row()
    table.add_row("clients dropped", "", "", Text(str(dropped), style="red" if dropped else "green"))
    table.add_row("not delivered yet", "", "", str(max(0, load.ledger.owed)))
    return table


def _marks(progress: Progress, lines: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for mark in sorted(progress.marks, key=lambda mark: mark.at)[-lines:]:
        style = next((style for kinds, style in _STYLES if mark.kind in kinds), "")
        node, peer = mark.node.partition("@")[0], mark.peer.partition("@")[0]
        words = f"{peer} {mark.detail}".strip()
        table.add_row(
            Text(f"{mark.at:7.2f} s", style="dim"),
            Text(node or "drill"),
            Text(mark.kind, style=style),
            Text(words, style="dim", overflow="ellipsis", no_wrap=True),
        )
    return table
