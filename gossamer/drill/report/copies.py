"""Promises about sessions that have copies, and about discs, from a record alone; pure.

What is lost or doubled is judged as in every drill; here is what only a death, a lost quorum or a bad disc
puts to the test: who goes on, how soon, and whether it is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gossamer.drill.record import DrillRecord, Mark, MarkKind, Tally
from gossamer.drill.report.found import Found, not_judged, short
from gossamer.faults import DRILLS, DrillKind

ELSEWHERE = "death of a node to its clients' sessions at another"
REPLACED = "start on a damaged log to whole replicas"
ELSEWHERE_WITHIN = 5.0
ALONE_WITHIN = 5.0
PRESENT = "session present"
"""Detail of a mark of a client that is back, and whose session was there."""
COMMITS = "gossamer_disc_commit_seconds"
"""Metric that tells of a slow disc."""
DAMAGED = "raft_log_damaged"
"""Event in the log of a node that has found damage."""

_SAID: Mapping[DrillKind, tuple[str, ...]] = {
    "kill-quorum": ("no_quorum", "sessions_behind"),
    "slow-disc": (COMMITS,),
    "disc-fault": (DAMAGED,),
}
"""What nodes have to say of a fault: alarms, a metric, a line of a log."""
_SAID_WITHIN = 15.0
"""Seconds after which alarms are there: they wait 10 s, and a node is held for down first."""


def elsewhere(record: DrillRecord) -> Found:
    """Judge that clients of a killed node found their sessions at another in time."""
    back = _backs(record)
    if not back:
        return not_judged("no client with a persistent session went to another node")
    expected = f"{PRESENT}, ≤ {ELSEWHERE_WITHIN:g} s"
    if missing := sorted(client for client, mark in back.items() if mark is None):
        return False, expected, f"{missing[0]} never came to another node"
    found = {client: mark for client, mark in back.items() if mark is not None}
    if anew := sorted(client for client, mark in found.items() if mark.detail != PRESENT):
        return False, expected, f"{len(anew)} of {len(back)} began anew, first {anew[0]}"
    slowest = elsewhere_after(record)
    return (
        slowest <= ELSEWHERE_WITHIN,
        expected,
        f"{len(back)} of {len(back)}, the last after {slowest:.1f} s",
    )


def elsewhere_after(record: DrillRecord) -> float:
    """Return the seconds from the death of a node to the last of its clients elsewhere; infinite: never."""
    killed = _first(record, "process killed")
    return max(math.inf if mark is None else mark.at - killed for mark in _backs(record).values())


def _backs(record: DrillRecord) -> dict[str, Mark | None]:
    killed = _first(record, "process killed")
    back: dict[str, Mark | None] = dict.fromkeys(record.clients.moved)
    for mark in reversed(record.marks):
        if mark.kind == "client back" and mark.peer in back and mark.at >= killed:
            back[mark.peer] = mark
    return back


def _first(record: DrillRecord, kind: MarkKind, since: float = 0.0) -> float:
    return next((mark.at for mark in record.marks if mark.kind == kind and mark.at >= since), math.inf)


def ordered(record: DrillRecord) -> Found:
    """Judge that no message came behind a later one of its publisher and topic."""
    rows = [row for row in record.traffic if row.qos]
    delivered = sum(row.delivered for row in rows)
    if not delivered:
        return not_judged("nothing was delivered by QoS 1 or 2")
    wrong = sum(row.disordered for row in rows)
    return not wrong, "0", f"{wrong:,} of {delivered:,} behind a later one" + _where(rows)


def _where(rows: list[Tally]) -> str:
    worst = max(rows, key=lambda row: row.disordered)
    if not worst.disordered:
        return ""
    return f"; {worst.disordered:,} from {worst.source} to {worst.target} in {worst.phase}, QoS {worst.qos}"


def alone(record: DrillRecord) -> Found:
    """Judge that a node without a quorum goes on to acknowledge what is of QoS 1."""
    side = record.plan.shape
    rows = [
        row
        for row in record.traffic
        if row.qos == 1 and row.phase == "split" and row.source == row.target == side
    ]
    if record.plan.kind != "kill-quorum" or not (sent := sum(row.sent for row in rows)):
        return not_judged("no node was left without a quorum")
    expected = f"all, ≤ {ALONE_WITHIN:g} s"
    acknowledged, waited = sum(row.acknowledged for row in rows), max(row.waited for row in rows)
    kept = acknowledged == sent and waited <= ALONE_WITHIN
    return kept, expected, f"{acknowledged:,} of {sent:,}, the slowest after {waited:.1f} s"


def slowed(record: DrillRecord) -> Found:
    """Judge that all that was sent to a slow disc was acknowledged."""
    rows = [row for row in record.traffic if row.qos and row.phase == "split"]
    if record.plan.kind != "slow-disc" or not (sent := sum(row.sent for row in rows)):
        return not_judged("no disc was slow")
    acknowledged, waited = sum(row.acknowledged for row in rows), max(row.waited for row in rows)
    got = f"{acknowledged:,} of {sent:,}, the slowest after {waited:.1f} s"
    return acknowledged == sent, "all acknowledged", got


def said(record: DrillRecord) -> Found:
    """Judge that nodes say what is wrong with them."""
    plan = record.plan
    wanted = _SAID.get(plan.kind)
    if wanted is None:
        return not_judged("no alarm, metric or log was asked for this fault")
    if plan.kind == "kill-quorum" and plan.seconds < _SAID_WITHIN:
        return not_judged(f"it lasted {plan.seconds:g} s only; alarms come after 10 s")
    found = {one.name: one for one in record.said}
    expected = ", ".join(wanted)
    if missing := [name for name in wanted if name not in found]:
        return False, expected, f"nothing of {', '.join(missing)}"
    if plan.kind == "slow-disc":
        delay = float((DRILLS[plan.kind].defaults | plan.settings)["delay"])
        expected = f"{COMMITS} ≥ {delay:g} s"
        return found[COMMITS].value >= delay, expected, found[COMMITS].text
    if plan.kind == "disc-fault":
        text = found[DAMAGED].text
        return "byte" in text, f"{DAMAGED} with file and byte", text.partition(": ")[0]
    return True, expected, "; ".join(f"{name} at {short(found[name].node)}" for name in wanted)


def replaced(record: DrillRecord) -> Found:
    """Judge that replicas whose log was damaged were replaced, and have everything."""
    if record.plan.kind != "disc-fault":
        return not_judged("no log was damaged")
    took = replaced_after(record)
    got = "never" if math.isinf(took) else f"{took:.1f} s after its start"
    return not math.isinf(took), "new replicas that have everything", got


def replaced_after(record: DrillRecord) -> float:
    """Return the seconds from the start on a damaged log to whole replicas; infinite: never."""
    started = _first(record, "process started", _first(record, "bit flipped"))
    return _first(record, "copies whole", started) - started if started < math.inf else math.inf
