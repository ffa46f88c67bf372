"""What an audit found, read from the files that it wrote: of ``gossamer audit run``, and of a stream.

::

    ID/out                    what `gossamer audit run … --json` printed: the numbers of all its jobs
    ID/JOB/summary.json       the same for each job; all that there is of a run made elsewhere
    ID/batches/7.json         of `gossamer audit stream`: one for each batch, whose numbers add up
    ID/err                    how far a run is: "completeness: started", "completeness: done in 3.1 s"

Rule: what is not as expected counts as not there; it may be of another version, or half copied.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["LARGEST", "findings_in", "is_audit", "steps_in"]

LARGEST = 4 * 1024 * 1024
"""Bytes of a file that is read."""
BATCHES = 500
"""Batches of a stream that are added up, the latest."""
_STEP = re.compile(r"^([a-z]+): (started|done in ([\d.]+) s)$", re.MULTILINE)


def is_audit(directory: Path) -> float:
    """When the audit in ``directory`` ended, by its files; 0 if there is none."""
    found = [
        directory / "report.html",
        *sorted(directory.glob("*/summary.json"))[:1],
        *_batches(directory)[-1:],
    ]
    return max((_changed(file) for file in found), default=0.0)


def findings_in(directory: Path) -> Mapping[str, Any]:
    """``from``, ``to``, ``files``, ``nodes``, ``share``, ``holes``, ``problems``, ``jobs``, ``broken``."""
    told = _read(directory / "out")
    if "jobs" in told:
        return told
    merged: dict[str, Any] = {}
    for file in sorted(directory.glob("*/summary.json")):
        one = _read(file)
        jobs = {**merged.get("jobs", {}), **_mapping(one.get("jobs"))}
        merged = {**one, **merged, "jobs": jobs}
    return merged or _of_stream(directory)


def steps_in(directory: Path) -> list[tuple[str, float | None]]:
    """The jobs that were begun, with the seconds that each took; None: it goes on."""
    try:
        text = (directory / "err").read_text(errors="replace")[-65536:]
    except OSError:
        return []
    found: dict[str, float | None] = {}
    for name, _, seconds in _STEP.findall(text):
        found[name] = float(seconds) if seconds else None
    return list(found.items())


def _of_stream(directory: Path) -> dict[str, Any]:
    batches = [_read(file) for file in _batches(directory)[-BATCHES:]]
    if not batches:
        return {}
    sums: Counter[str] = Counter()
    for batch in batches:
        sums.update({name: n for name, n in _mapping(batch.get("numbers")).items() if isinstance(n, int)})
    holes = sum(len(batch.get("holes", ())) for batch in batches)
    says = [f"A stream: {len(batches)} batches of it."]
    if holes:
        says.append(f"{holes} times a recorder was not looking.")
    return {
        "from": batches[0].get("from", ""),
        "to": batches[-1].get("to", ""),
        "jobs": {"stream": {"numbers": dict(sums), "says": says}},
    }


def _batches(directory: Path) -> list[Path]:
    found = [file for file in directory.glob("batches/*.json") if file.stem.isdecimal()]
    return sorted(found, key=_number)


def _number(file: Path) -> int:
    return int(file.stem)


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _read(file: Path) -> Mapping[str, Any]:
    try:
        if file.stat().st_size > LARGEST:
            return {}
        return _mapping(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
