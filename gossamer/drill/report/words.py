"""Summary of a drill or a suite in a few words and figures; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gossamer.drill.record import DrillRecord, PhaseName, Plan, Verdict
from gossamer.drill.report.found import short
from gossamer.drill.report.promises import PROMISES
from gossamer.faults import DRILLS


class PromiseRow(Struct, frozen=True):
    """Promise over all drills. ``kept`` None: no drill tested it."""

    promise: str
    kept: bool | None
    kept_in: int = 0
    judged_in: int = 0
    worst: str = ""
    """Name of the first drill that broke it; if none did, of one that kept it."""
    got: str = ""
    """Result in that drill."""


class Summary(Struct, frozen=True):
    """Result of a suite. ``kept``: every drill completed and kept all promises that it tested."""

    kept: bool
    words: str
    more: tuple[str, ...]
    promises: tuple[PromiseRow, ...]


def name_of(plan: Plan) -> str:
    """Return a short, stable name: ``partition 3/2``, ``kill node5``."""
    return DRILLS[plan.kind].name.format(shape=plan.shape)


def phase_name(plan: Plan, name: PhaseName) -> str:
    """Return the display name of a phase: a fault that separates no sides is no split."""
    parting = DRILLS[plan.kind].at == "split" and plan.kind != "slow"
    return "fault" if name == "split" and not parting else name


def outcome(verdicts: Iterable[Verdict], failure: str = "") -> str:
    """Return ``kept``, ``broken``, or ``none`` if nothing was judged."""
    found = {verdict.kept for verdict in verdicts}
    if failure or False in found:
        return "broken"
    return "kept" if True in found else "none"


def verdict_in_words(record: DrillRecord) -> str:
    """Return the verdict as one sentence."""
    judged = [verdict for verdict in record.verdicts if verdict.kept is not None]
    broken = [verdict for verdict in judged if not verdict.kept]
    if record.failure:
        return f"The drill could not be carried out to its end: {record.failure}"
    if broken:
        what = "; ".join(f"{verdict.promise} (got {verdict.got})" for verdict in broken)
        verb = "was" if len(broken) == 1 else "were"
        return f"{len(broken)} of {_promises(len(judged))} {verb} broken: {what}."
    if not judged:
        return "No promise was put to the test."
    if len(judged) == len(record.verdicts):
        return f"All {_promises(len(judged))} were kept."
    if len(judged) == 1:
        return "The one promise that this drill puts to the test was kept."
    return f"All {_promises(len(judged))} that this drill puts to the test were kept."


def _promises(count: int) -> str:
    return "1 promise" if count == 1 else f"{count} promises"


def happened(record: DrillRecord) -> str:
    """Describe what was done, and the result."""
    plan = record.plan
    load = f" under {plan.load:,.0f} messages a second" if plan.load else " without load"
    done = f"{_done(record)}{load}."
    times = [
        f"{speed.name}: {speed.seconds:.1f} s" if speed.seconds is not None else f"{speed.name}: never"
        for speed in record.speeds
    ]
    return f"{done} {_capital('; '.join(times))}." if times else done


def _done(record: DrillRecord) -> str:
    plan = record.plan
    time = f"for {plan.seconds:g} s"
    if plan.kind == "partition" and "/" not in plan.shape:
        arrow = "what goes one way" if ">" in plan.shape else "the link"
        return f"Of {len(plan.nodes)} nodes, {arrow} between {_ends(plan.shape)} was cut {time}"
    drill = DRILLS[plan.kind]
    said = drill.happened.format(
        sides=" and ".join(f"nodes {side.name.replace(',', ', ')}" for side in record.sides),
        shape=plan.shape,
        nodes=len(plan.nodes),
        seconds=plan.seconds,
        time=time,
        jump=(drill.defaults | plan.settings).get("jump"),
        delay=(drill.defaults | plan.settings).get("delay"),
        slowness=_slowness(plan),
    )
    return _capital(said)


def _ends(shape: str) -> str:
    return shape.replace(">", " and ").replace("-", " and ").replace("+", ", ")


def _slowness(plan: Plan) -> str:
    parts = []
    if delay := float(plan.settings.get("delay", 0.0)):
        parts.append(f"{delay * 1000:g} ms late")
    if loss := float(plan.settings.get("loss", 0.0)):
        parts.append(f"{loss:.3g} of packets lost" if loss < 0.01 else f"{loss:.0%} of packets lost")
    return ", ".join(parts) or "not at all"


def figures(record: DrillRecord) -> list[tuple[str, str, str]]:
    """Return name, value and remark of each figure, for the top of a report."""
    found = []
    for speed in record.speeds:
        value = "never" if speed.seconds is None else f"{speed.seconds:.1f} s"
        bar = f"promised: {speed.bar:g} s" if speed.bar is not None else speed.detail
        found.append((_capital(speed.name), value, bar))
    acknowledged = sum(row.acknowledged for row in record.traffic if row.qos)
    if acknowledged:
        sent = sum(row.sent for row in record.traffic)
        found.append(("Messages sent", f"{sent:,}", f"{acknowledged:,} acknowledged with QoS 1 or 2"))
    clients = record.clients
    if total := clients.publishers + clients.subscribers:
        dropped = sum(not drop.excused for drop in clients.drops)
        found.append(("Clients dropped", f"{dropped}", f"of {total}"))
    return found


def names(nodes: Iterable[str]) -> str:
    """Join short names: ``node1, node2``."""
    return ", ".join(short(node) for node in nodes)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def summarise(records: Mapping[str, DrillRecord], skipped: Mapping[str, str]) -> Summary:
    """Summarise a suite: ``records`` by drill name; ``skipped``: why others did not run."""
    rows = tuple(_row(promise, records) for promise in PROMISES)
    broken = [row for row in rows if row.kept is False]
    judged = [row for row in rows if row.kept is not None]
    failed = [name for name, record in records.items() if record.failure]
    more = [f"{name} could not be carried out to its end: {records[name].failure}" for name in failed]
    if judged and (untested := [row.promise for row in rows if row.kept is None]):
        more.append(f"Not put to the test: {'; '.join(untested)}.")
    if skipped:
        more.append(f"Not run: {', '.join(f'{name} ({reason})' for name, reason in skipped.items())}.")
    drills = "1 drill" if len(records) == 1 else f"{len(records)} drills"
    if broken:
        what = "; ".join(row.promise for row in broken)
        words = f"{len(broken)} of {len(judged)} promises broken over {drills}: {what}."
    elif failed:
        words = f"No promise broken, but {len(failed)} of {drills} could not be carried out to the end."
    elif judged:
        words = f"{len(judged)} of {len(rows)} promises put to the test over {drills}, all kept."
    else:
        words = "No promise was put to the test."
    return Summary(bool(judged) and not broken and not failed, words, tuple(more), rows)


def _row(promise: str, records: Mapping[str, DrillRecord]) -> PromiseRow:
    found = {
        name: verdict
        for name, record in records.items()
        for verdict in record.verdicts
        if verdict.promise == promise and verdict.kept is not None
    }
    if not found:
        return PromiseRow(promise, None)
    worst, verdict = min(found.items(), key=lambda item: bool(item[1].kept))
    kept = sum(bool(verdict.kept) for verdict in found.values())
    return PromiseRow(promise, kept == len(found), kept, len(found), worst, verdict.got)
