"""Times that a drill measures and promises that it tests, from its record alone; pure.

A verdict is kept, broken, or not judged if this drill could not break it; then ``got`` says why.

Rules: 1. Only the record counts: any reader of the file gets the same verdicts.  2. Damage done by the drill
itself breaks no promise: dropped clients of a killed node, and messages blocked by a fault, are reported
only as between sides.  3. A time that should have been measured and was not is broken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from gossamer.drill.record import DrillRecord, MarkKind, Speed, Tally, Verdict
from gossamer.drill.report import copies
from gossamer.drill.report.found import Found, not_judged, short
from gossamer.faults import DrillKind, parse_shape

DETECTED = "first word of the split at each side"
KNOWN = "all nodes of both sides know of the split"
ROUTES = "connectivity back to all routes equal"
HEALED = "connectivity back to healed"

KNOWN_WITHIN = 5.0
ROUTES_WITHIN = 6.0

_BEGINS: tuple[MarkKind, ...] = ("fault applied", "process paused", "process killed")
_ENDED: frozenset[DrillKind] = frozenset({"pause", "kill", "kill-owner", "kill-quorum", "disc-fault"})
"""Drills of a node that does not answer, or in which only one does."""
_ENDS: tuple[MarkKind, ...] = ("fault lifted", "process resumed", "process started")


def judge(record: DrillRecord) -> tuple[Verdict, ...]:
    """Return one verdict for each of :data:`PROMISES`, in their order."""
    return tuple(Verdict(promise, *of(record)) for promise, of in PROMISES.items())


# -- times


def measure(record: DrillRecord) -> tuple[Speed, ...]:
    """Return all times of this kind of drill, from its marks; an event that never happened has none.

    A side has detected the split once each of its nodes has declared a node of every other side down. Times
    have a bar only for a plain partition with default settings.
    """
    plain = record.plan.kind == "partition"
    found: list[Speed] = []
    times, _ = _declared(record)
    if times and record.plan.kind != "flapping":
        side_of = _side_of(record)
        first: dict[str, float] = {}
        for (node, _), at in times.items():
            first[side_of[node]] = min(at, first.get(side_of[node], math.inf))
        found.append(_speed(DETECTED, max(first.values())))
        found.append(_speed(KNOWN, max(times.values()), KNOWN_WITHIN if plain else None))
    lifted = _lifted(record)
    if lifted is not None:
        equal = _after(record, lifted, "routes equal")
        found.append(_speed(ROUTES, max(equal.values(), default=math.inf), ROUTES_WITHIN if plain else None))
        if raised := _after(record, lifted, "partition raised"):
            healed = {m.node: m.at - lifted for m in record.marks if m.kind == "healed" and m.at >= lifted}
            took = max(healed.values()) if raised.keys() <= healed.keys() else math.inf
            found.append(_speed(HEALED, took, None, f"{len(healed)} nodes healed"))
    if record.clients.moved:
        took = copies.elsewhere_after(record)
        found.append(_speed(copies.ELSEWHERE, took, copies.ELSEWHERE_WITHIN))
    if record.plan.kind == "disc-fault":
        found.append(_speed(copies.REPLACED, copies.replaced_after(record)))
    return tuple(found)


def _speed(name: str, seconds: float, bar: float | None = None, detail: str = "") -> Speed:
    return Speed(name, None if math.isinf(seconds) else round(seconds, 3), bar, detail)


def _known(record: DrillRecord) -> Found:
    times, why = _declared(record)
    if why:
        return not_judged(why)
    expected = f"≤ {KNOWN_WITHIN:g} s"
    if blind := sorted(pair for pair, at in times.items() if math.isinf(at)):
        more = f", and {len(blind) - 1} more" if len(blind) > 1 else ""
        node, side = blind[0]
        return False, expected, f"{short(node)} never declared anybody of side {side} down{more}"
    (node, side), slowest = max(times.items(), key=lambda item: item[1])
    return slowest <= KNOWN_WITHIN, expected, f"{slowest:.1f} s, the last {short(node)} of side {side}"


def _declared(record: DrillRecord) -> tuple[dict[tuple[str, str], float], str]:
    """Return seconds until each node declared a node of each lost side down, and why they are not judged.

    Seconds are infinite if it never did.
    """
    pairs = _parted_nodes(record)
    if not pairs:
        return {}, "nodes were not parted"
    side_of = _side_of(record)
    together = _reachable(record.plan.nodes, pairs)
    # A node that is still reachable through others need not be declared down.
    wanted = {(node, side_of.get(peer, peer)) for node, peer in pairs if peer not in together[node]}
    if not wanted:
        return {}, "all nodes still reached each other through others"
    begin = next((mark.at for mark in record.marks if mark.kind in _BEGINS), None)
    if begin is None:
        return {}, "the fault never began"
    times = dict.fromkeys(wanted, math.inf)
    for mark in record.marks:
        pair = mark.node, side_of.get(mark.peer, mark.peer)
        if mark.kind == "declared down" and mark.at >= begin and pair in wanted:
            times[pair] = min(times[pair], mark.at - begin)
    lasted = next((m.at - begin for m in record.marks if m.kind in _ENDS and m.at >= begin), math.inf)
    return times, f"it lasted {lasted:.1f} s only" if lasted < KNOWN_WITHIN else ""


def _side_of(record: DrillRecord) -> dict[str, str]:
    return {node: side.name for side in record.sides for node in side.nodes}


def _reachable(nodes: Sequence[str], cut: set[tuple[str, str]]) -> dict[str, set[str]]:
    """Return the nodes that each node reaches, directly or through others."""
    found = {name: {name} for name in nodes}
    for a, b in combinations(nodes, 2):
        if not {(a, b), (b, a)} & cut and found[a] is not found[b]:
            group = found[a] | found[b]
            found |= dict.fromkeys(group, group)
    return found


def _parted_nodes(record: DrillRecord) -> set[tuple[str, str]]:
    """Return pairs (node, peer) of which the node must detect the peer's loss; in a cut both must."""
    plan = record.plan
    if plan.kind in ("partition", "flapping", "coordinator"):
        names = plan.nodes
        return {
            pair
            for a, b in parse_shape(plan.shape, len(names)).cuts
            for pair in ((names[a - 1], names[b - 1]), (names[b - 1], names[a - 1]))
        }
    if plan.kind in _ENDED and plan.shape.isdecimal():
        one = plan.nodes[int(plan.shape) - 1]
        others = [name for name in plan.nodes if name != one]
        return {(one, name) if plan.kind == "kill-quorum" else (name, one) for name in others}
    return set()


def _routes(record: DrillRecord) -> Found:
    if not _parted_nodes(record):
        return not_judged("nodes were not parted")
    if record.plan.kind in {*_ENDED, "coordinator"} - {"pause"}:
        return not_judged("a node was killed: routes are equal once it is back")
    lifted = _lifted(record)
    if lifted is None:
        return not_judged("connectivity never came back")
    expected = f"≤ {ROUTES_WITHIN:g} s"
    equal = _after(record, lifted, "routes equal")
    if not equal:
        return False, expected, "never"
    node, slowest = max(equal.items(), key=lambda item: item[1])
    return slowest <= ROUTES_WITHIN, expected, f"{slowest:.1f} s" + (f", the last {short(node)}" * bool(node))


def _lifted(record: DrillRecord) -> float | None:
    """Return when the fault last ended: a flapping link comes back more than once."""
    return max((mark.at for mark in record.marks if mark.kind in _ENDS), default=None)


def _after(record: DrillRecord, since: float, kind: MarkKind) -> dict[str, float]:
    """Return, per node, the seconds from ``since`` to its first mark of a kind."""
    found: dict[str, float] = {}
    for mark in record.marks:
        if mark.kind == kind and mark.at >= since:
            found.setdefault(mark.node, mark.at - since)
    return found


# -- clients and messages


def _clients(record: DrillRecord) -> Found:
    clients = record.clients
    total = clients.publishers + clients.subscribers
    if not total:
        return not_judged("no client took part")
    dropped = [drop for drop in clients.drops if not drop.excused]
    excused = len(clients.drops) - len(dropped)
    of = f" of {total}" + (f"; {excused} more of nodes that the drill ended" if excused else "")
    if dropped:
        first = dropped[0]
        return False, "0", f"{len(dropped)}{of}; first {first.client} at {first.at:.1f} s: {first.reason}"
    return True, "0", f"0{of}"


def _together(record: DrillRecord) -> Found:
    apart = _apart(record)
    rows = [row for row in record.traffic if row.qos and not apart(row)]
    return _lost(rows, "no acknowledged message between clients of one side")


def _between(record: DrillRecord) -> Found:
    apart = _apart(record)
    rows = [row for row in record.traffic if row.qos and row.persistent and apart(row)]
    return _lost(rows, "no acknowledged message for a persistent session on another side")


def promised(record: DrillRecord) -> Callable[[Tally], bool]:
    """Return a predicate: do a row's losses break a promise? Not with QoS 0, nor clean across the fault."""
    apart = _apart(record)
    return lambda row: bool(row.qos) and (row.persistent or not apart(row))


def _apart(record: DrillRecord) -> Callable[[Tally], bool]:
    """Return a predicate: did the fault separate the sides of a row?

    Not on a path on which a node was killed during the heal: of its messages, only those that involved that
    node are parted.
    """
    torn = {(row.source, row.target) for row in record.traffic if row.parted and row.phase == "split"}
    return lambda row: row.parted or (row.phase in ("split", "heal") and (row.source, row.target) in torn)


def _lost(rows: Iterable[Tally], none: str) -> Found:
    acknowledged = lost = 0
    where: Counter[str] = Counter()
    for row in rows:
        acknowledged += row.acknowledged
        lost += row.lost
        where[f"from {row.source} to {row.target} in {row.phase}, QoS {row.qos}"] += row.lost
    if not acknowledged:
        return not_judged(none)
    got = f"{lost:,} lost of {acknowledged:,}"
    if lost:
        worst, count = where.most_common(1)[0]
        got += f"; {count:,} {worst}"
    return not lost, "0 lost", got


def _doubled(record: DrillRecord) -> Found:
    rows = [row for row in record.traffic if row.qos == 2]
    delivered = sum(row.delivered for row in rows)
    if not delivered:
        return not_judged("nothing was delivered by QoS 2")
    doubled = sum(row.doubled for row in rows)
    return not doubled, "0", f"{doubled:,} of {delivered:,}"


# -- the cluster


def _minority(record: DrillRecord) -> Found:
    restarted = {mark.node for mark in record.marks if mark.kind == "restarted store"}
    if not record.heals and not restarted:
        return not_judged("nothing had to be healed")
    expected = "none but the smaller side"
    if wrong := next(_unfair(record, restarted), None):
        return False, expected, wrong
    names = sorted({name for heal in record.heals for name in heal.reloaded} | restarted)
    return True, expected, ", ".join(map(short, names)) or "nobody"


def _unfair(record: DrillRecord, restarted: set[str]) -> Iterator[str]:
    """Describe restarts that should not have happened."""
    for heal in record.heals:
        if both := set(heal.reloaded) & set(heal.survivors):
            yield f"{_names(both)} survived and restarted"
        if not heal.survivors:
            yield "nobody survived"
        away = {*heal.reloaded, *heal.skipped}
        for side in record.sides:
            if set(side.nodes) <= away and len(side.nodes) > len(heal.survivors):
                yield f"side {side.name}, though only {_names(heal.survivors)} survived"
    allowed = {name for heal in record.heals for name in heal.reloaded}
    if alone := restarted - allowed:
        yield f"{_names(alone)}, which no heal named"


def _quarantine(record: DrillRecord) -> Found:
    decided = sum(heal.restored + heal.merged for heal in record.heals)
    # A heal counts the rows that its coordinator saw lose; every node that saw it keeps the row, so at
    # least as many are kept as the fullest quarantine holds.
    fullest = max((found.rows for found in record.quarantined), default=0)
    kept = max(sum(heal.quarantined for heal in record.heals), fullest)
    left = sum(heal.left for heal in record.heals)
    if not (record.conflicts or decided or kept or left):
        return not_judged("no row was written on more than one side")
    owed = max(decided, record.conflicts)
    expected = f"{owed:,} rows or more in quarantine, none left undecided"
    got = f"{kept:,} in quarantine" + (f", {left:,} left undecided" if left else "")
    return kept >= owed and not left, expected, got


def _whole(record: DrillRecord) -> Found:
    if not record.ends:
        return not_judged("the drill ended before anybody looked")
    everybody = set(record.plan.nodes)
    expected = f"1 cluster of {len(everybody)}, equal tables"
    for end in record.ends:
        if not end.members:
            return False, expected, f"{short(end.node)} did not answer"
        if missing := everybody - set(end.members):
            return False, expected, f"{short(end.node)} was without {_names(missing)}"
    first, *others = record.ends
    for end in others:
        names = sorted(first.tables.keys() | end.tables.keys())
        for name in names:
            one, other = (at.tables.get(name, "no rows") for at in (first, end))
            if one != other:
                differ = f"{name}: {short(first.node)} {one}, {short(end.node)} {other}"
                return False, expected, differ
    tables = len({name.partition(" of ")[0] for name in first.tables})
    return True, expected, f"1 cluster of {len(record.ends)}, {tables} tables equal"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(short, sorted(names)))


PROMISES: dict[str, Callable[[DrillRecord], Found]] = {
    "Both sides know of the split within 5 s": _known,
    "All routes are equal within 6 s once connectivity is back": _routes,
    "No client is dropped": _clients,
    "Nothing acknowledged is lost between clients on one side": _together,
    "Between sides, persistent sessions get everything after healing": _between,
    "Nothing is doubled within a QoS 2 flow": _doubled,
    "One publisher's messages of a topic come in order": copies.ordered,
    "Clients of a dead node find their sessions at another within 5 s": copies.elsewhere,
    "Without a quorum, QoS 1 is acknowledged within 5 s": copies.alone,
    "A slow disc slows publishers and fails none": copies.slowed,
    "What is wrong is said by an alarm, a metric or the log": copies.said,
    "What was on a damaged log comes from the others": copies.replaced,
    "Only the smaller side restarts its store": _minority,
    "Nothing is discarded without quarantine": _quarantine,
    "One cluster at the end, all tables equal": _whole,
}
"""Promises, in the order of display."""
