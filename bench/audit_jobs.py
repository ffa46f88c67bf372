"""Every message against every subscription, by Spark and by DuckDB, on the same cores and the same files.

    python bench/audit_jobs.py [--events 1000000 10000000] [--cores 2] [--memory 4] [--dir DIR]

Recordings are made by ``audit_events`` with faults whose numbers are known, and both have to find them. They
are asked as users ask: ``gossamer audit run completeness``, with the start of a JVM where there is one, the
look at every file, the table of all verdicts written and the summary. Each in a process of its own, with as
many threads and as much memory; the table shows wall-clock and processor time, and the most memory held.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ENGINES = ("spark", "duckdb")


def ask(who: str, files: Path, cores: int, memory: int) -> dict[str, int]:
    # What is not heap (threads, code, buffers) is counted as memory too.
    heap = memory * 1024 - 768
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "gossamer.cli", "audit", "run", "completeness", "--json", "--quiet"),
                *("--engine", who, "--dir", str(files), "--out", out),
                *("--master", f"local[{cores}]", "--memory", f"{heap}m"),
            ],
            stdout=subprocess.PIPE,
            check=True,
        )
    told = json.loads(done.stdout)
    assert not told["problems"], told["problems"]
    numbers = told["jobs"]["completeness"]["numbers"]
    return {verdict: count for verdict, count in numbers.items() if count and verdict != "owed"}


def anonymous(process: int) -> int:
    """Bytes that a process holds itself: not of files it has mapped, which the system takes back at need."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Anonymous:"))


def measured(who: str, files: Path, cores: int, memory: int) -> dict[str, Any]:
    """Ask in a process of its own, held to so many cores; what it and all its children take is looked at."""
    began = time.monotonic()
    process = psutil.Popen(
        [sys.executable, __file__, "--ask", who, str(files), str(cores), str(memory)], stdout=subprocess.PIPE
    )
    spent: dict[int, float] = {}
    most = 0
    while process.poll() is None:
        held = 0
        for each in [process, *process.children(recursive=True)]:
            try:
                times = each.cpu_times()
                spent[each.pid] = times.user + times.system
                held += anonymous(each.pid)
            except (psutil.Error, OSError):
                continue
        most = max(most, held)
        time.sleep(0.2)
    wall = time.monotonic() - began
    assert process.stdout is not None
    if process.returncode:
        raise SystemExit(f"{who} ended with {process.returncode}")
    found = json.loads(process.stdout.read())
    return {"found": found, "cpu": sum(spent.values()), "memory": most, "wall": wall}


def answer(who: str, files: Path, cores: int, memory: int) -> None:
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    print(json.dumps(ask(who, files, cores, memory)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", type=int, default=4, help="GiB")
    parser.add_argument("--dir", type=Path, help="where to make the recordings; removed afterwards")
    parser.add_argument("--only", choices=ENGINES)
    options = parser.parse_args()
    from audit_events import generate

    print(
        f"{'events':>12} {'on disc':>9} {'who':>7} {'wall s':>7} {'cpu s':>7} {'M ev/s':>7} {'GiB':>5}  found"
    )
    for events in options.events:
        root = Path(tempfile.mkdtemp(prefix="recording-", dir=options.dir))
        try:
            truth = {verdict: count for verdict, count in generate(root, events).items() if count}
            size = sum(path.stat().st_size for path in root.rglob("*.parquet")) / 2**20
            for who in [options.only] if options.only else ENGINES:
                told = measured(who, root, options.cores, options.memory)
                right = "as made" if told["found"] == truth else f"{told['found']}, made {truth}"
                print(
                    f"{events:12,} {size:6.0f} MB {who:>7} {told['wall']:7.1f} {told['cpu']:7.1f}"
                    f" {events / told['wall'] / 1e6:7.2f} {told['memory'] / 2**30:5.1f}  {right}",
                    flush=True,
                )
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        answer(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
