"""What is said of runs: a line of JSON each, the same in words, and a table of many lines.

A line is all that leaves the process of a run, so a matrix is as many lines as it has runs, in any order and
from as many commands as it took.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .run import Outcome, Plan

Line = dict[str, Any]
KEPT_VIOLATIONS = 20


def line_of(outcome: Outcome, *, busy: int = 0) -> Line:
    """``workloads``: how many violations of each promise; ``shown``: the first of them in words."""
    kinds = Counter(event.kind for event in outcome.events)
    return {
        **_plan_of(outcome.plan, busy),
        "seconds": round(outcome.seconds, 1),
        "acknowledged": kinds["acknowledged"],
        "received": kinds["received"],
        "workloads": {
            name: dict(Counter(violation.promise for violation in found))
            for name, found in outcome.verdicts.items()
        },
        "shown": {name: _first(found) for name, found in outcome.verdicts.items() if found},
        "history": str(outcome.directory / "history.jsonl"),
    }


def error_line(plan: Plan, directory: Path, error: BaseException, *, busy: int = 0) -> Line:
    """A run without a verdict: the checker failed, or the cluster did not start."""
    return {**_plan_of(plan, busy), "workloads": {}, "error": repr(error), "history": str(directory)}


def _plan_of(plan: Plan, busy: int) -> Line:
    return {
        "fault": plan.fault,
        "seed": plan.seed,
        "steps": ", ".join(str(step) for step in plan.schedule()),
        "asked": list(plan.workloads),
        "pace": plan.pace,
        "warm": plan.warm,
        "busy": busy,
        "load": round(os.getloadavg()[0], 1),
    }


def _first(found: Iterable[Any]) -> list[str]:
    """The first few of each promise."""
    counts: Counter[str] = Counter()
    shown = []
    for violation in found:
        counts[violation.promise] += 1
        if counts[violation.promise] <= KEPT_VIOLATIONS:
            shown.append(str(violation))
    return shown


def broken(line: Line) -> bool:
    return "error" in line or any(line["workloads"].values())


def in_words(line: Line, most: int) -> str:
    """``most``: how many violations of each promise are shown."""
    said = [f"== {line['fault']} seed {line['seed']}: {line['steps']}"]
    if "error" in line:
        return "\n".join([*said, f"   NO VERDICT: {line['error']}; see {line['history']}"])
    said.append(
        f"   {line['acknowledged']} acknowledged, {line['received']} received, {line['seconds']:.0f} s: "
        + ("BROKEN" if broken(line) else "all promises kept")
    )
    for name, counts in line["workloads"].items():
        shown: Counter[str] = Counter()
        for text in line["shown"].get(name, []):
            promise = text.partition(":")[0]
            shown[promise] += 1
            if shown[promise] <= most:
                said.append(f"   {name}  {text}")
        if counts:
            said.append(f"   {name}: " + ", ".join(f"{count} {promise}" for promise, count in counts.items()))
    if broken(line):
        me = "python -m tests.real.history"
        options = f" --pace {line['pace']:g}" * (line["pace"] != 1) + " --warm" * line["warm"]
        said.append(f"   history: {line['history']}; judge it again: {me} --replay {line['history']}")
        said.append(
            f"   run it again: {me} --workload {','.join(line['asked'])} --fault {line['fault']} "
            f"--seed {line['seed']}{options}"
        )
    return "\n".join(said)


def read_lines(paths: Iterable[Path]) -> list[Line]:
    lines = []
    for path in paths:
        with path.open(encoding="utf-8") as file:
            lines += [json.loads(text) for text in file if text.startswith("{")]
    return lines


def table(lines: Iterable[Line]) -> str:
    """Runs of each workload under each fault as Markdown, with those that broke a promise where any did."""
    runs: Counter[tuple[str, str]] = Counter()
    bad: Counter[tuple[str, str]] = Counter()
    faults: dict[str, None] = {}
    workloads: dict[str, None] = {}
    for line in lines:
        faults[line["fault"]] = None
        for name, counts in line["workloads"].items():
            workloads[name] = None
            runs[line["fault"], name] += 1
            bad[line["fault"], name] += bool(counts)
    said = ["| fault | " + " | ".join(f"`{name}`" for name in workloads) + " |"]
    said.append("|---|" + "---|" * len(workloads))
    for fault in faults:
        cells = (_cell(bad[fault, name], runs[fault, name]) for name in workloads)
        said.append(f"| `{fault}` | " + " | ".join(cells) + " |")
    return "\n".join(said)


def _cell(bad: int, runs: int) -> str:
    return f"**{bad}**/{runs}" if bad else f"0/{runs}" if runs else "–"
