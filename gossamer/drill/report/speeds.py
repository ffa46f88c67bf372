"""The times that a drill measures, read off its marks; pure.

Rules: 1. A side knows of the split once each of its nodes has declared a node of every other side down.  2.
What never happened has no time.  3. Bars hold for a plain partition with default settings; other drills
measure, and promise nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gossamer.drill.record import Mark, Plan, Side, Speed

__all__ = ["DETECTED", "HEALED", "KNOWN", "ROUTES", "speeds_of"]

DETECTED = "first word of the split at each side"
KNOWN = "all nodes of both sides know of the split"
ROUTES = "connectivity back to all routes equal"
HEALED = "connectivity back to healed"

_KNOWN_BAR = 5.0
_ROUTES_BAR = 6.0


def speeds_of(
    plan: Plan, sides: Sequence[Side], marks: Sequence[Mark], parted: Iterable[tuple[str, str]]
) -> tuple[Speed, ...]:
    """Every time that this kind of drill has."""
    applied = _first(marks, lambda mark: mark.kind in ("fault applied", "process killed", "process paused"))
    lifted = _last(marks, lambda mark: mark.kind in ("fault lifted", "process started", "process resumed"))
    plain = plan.kind == "partition"
    speeds: list[Speed] = []
    apart = sorted(pair for pair in parted if pair[0] != pair[1])
    if applied is not None and apart and plan.kind not in ("flapping", "rolling"):
        speeds += _detection(plan, sides, [m for m in marks if m.at >= applied], apart, applied, plain=plain)
    if lifted is not None:
        after = [mark for mark in marks if mark.at >= lifted]
        equal = _last(after, lambda mark: mark.kind == "routes equal")
        speeds.append(Speed(ROUTES, _since(lifted, equal), _ROUTES_BAR if plain else None))
        if any(mark.kind == "partition raised" for mark in after):
            healed = {mark.node: mark.at for mark in after if mark.kind == "healed"}
            raised = {mark.node for mark in after if mark.kind == "partition raised"}
            last = max(healed.values()) if raised <= healed.keys() else None
            speeds.append(Speed(HEALED, _since(lifted, last), None, f"{len(healed)} nodes healed"))
    return tuple(speeds)


def _detection(
    plan: Plan,
    sides: Sequence[Side],
    marks: Sequence[Mark],
    apart: Sequence[tuple[str, str]],
    applied: float,
    *,
    plain: bool,
) -> list[Speed]:
    dead = {mark.node for mark in marks if mark.kind == "process killed"} | {
        mark.node for mark in marks if mark.kind == "process paused"
    }
    said: dict[tuple[str, str], float] = {}
    for mark in marks:
        if mark.kind == "declared down":
            said.setdefault((mark.node, mark.peer), mark.at)
    side_of = {name: side.name for side in sides for name in side.nodes}
    # One word about each other side is enough for a node to know; the dead say nothing.
    wanted = {(a, side_of[b]) for a, b in apart if a not in dead}
    knew = {
        (node, side): min(
            (at for (who, whom), at in said.items() if who == node and side_of[whom] == side),
            default=None,
        )
        for node, side in wanted
    }
    first: dict[str, float | None] = {}
    for (node, _), at in knew.items():
        best = first.get(side_of[node])
        if at is not None and (best is None or at < best):
            first[side_of[node]] = at
        first.setdefault(side_of[node], None)
    times = list(knew.values())
    return [
        Speed(DETECTED, _since(applied, _latest(list(first.values())))),
        Speed(KNOWN, _since(applied, _latest(times)), _KNOWN_BAR if plain else None),
    ]


def _latest(times: Sequence[float | None]) -> float | None:
    """The last of them, None if one is missing or all are."""
    there = [at for at in times if at is not None]
    return max(there) if there and len(there) == len(times) else None


def _since(begin: float, end: float | None) -> float | None:
    return None if end is None else round(end - begin, 3)


def _first(marks: Sequence[Mark], wanted: Callable[[Mark], bool]) -> float | None:
    return next((mark.at for mark in marks if wanted(mark)), None)


def _last(marks: Sequence[Mark], wanted: Callable[[Mark], bool]) -> float | None:
    return next((mark.at for mark in reversed(marks) if wanted(mark)), None)
