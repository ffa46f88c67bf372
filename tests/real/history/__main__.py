"""Run workloads against real nodes while they are broken, and judge what clients saw.

::

    python -m tests.real.history                                     every stream, kill -9 of one, seed 1
    python -m tests.real.history --workload roam-1,roam-2 --fault pause --seed 7 --seeds 5
    python -m tests.real.history --fault all --minutes 30            the matrix, as long as there is time
    python -m tests.real.history --replay DIR/history.jsonl          judge a history again, without a cluster
    python -m tests.real.history --again DIR/history.jsonl           run the same schedule again
    python -m tests.real.history --minimise DIR/history.jsonl     look for the smallest run that still fails

Workloads named together share one cluster and are judged each for itself. Nodes run in network namespaces
(root, ip, nft); without these, on loopback, and the faults of the network are left out. Each run leaves its
history, configuration and logs of the nodes below --keep. Exit code: 0 all promises kept, 1 some were broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .faults import FAULTS
from .history import read
from .network import able
from .run import Outcome, Plan, judged, run
from .workloads import WORKLOADS

SHOWN = 6


def main() -> int:
    options = _options()
    if options.list:
        for table in (WORKLOADS, FAULTS):
            for row in table.values():
                print(f"{row.name:16} {row.says}")
            print()
        return 0
    if options.replay:
        header, events = read(options.replay)
        plan = Plan.of_header(header)
        return _report(Outcome(plan, events, judged(plan, events)), options.replay.parent, options)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="gossamer-history-"))
    crowd = [_busy() for _ in range(options.busy)]
    try:
        if options.minimise:
            from .minimise import minimise

            return minimise(Plan.of_header(read(options.minimise)[0]), keep)
        return _matrix(options, keep)
    finally:
        for process in crowd:
            process.kill()


def _matrix(options: argparse.Namespace, keep: Path) -> int:
    began, failed, outcomes = time.monotonic(), 0, []
    for plan in _plans(options):
        left = options.minutes * 60 - (time.monotonic() - began) if options.minutes else None
        if left is not None and left < 45:
            break
        name = f"{plan.fault}-{plan.seed}"
        directory = keep / name
        if not options.json:
            print(f"== {plan.fault} seed {plan.seed}: {', '.join(str(step) for step in plan.schedule())}")
        outcome = asyncio.run(run(plan, directory))
        outcomes.append(outcome)
        failed += _report(outcome, directory, options)
        if outcome.ok and not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    if not options.json:
        print(_table(outcomes))
    return min(failed, 1)


def _plans(options: argparse.Namespace) -> Iterator[Plan]:
    if options.again:
        plan = Plan.of_header(read(options.again)[0])
        for _ in range(options.seeds):
            yield plan
        return
    faults = list(FAULTS) if options.fault == "all" else options.fault.split(",")
    if why := able():
        left_out = [name for name in faults if FAULTS[name].network]
        faults = [name for name in faults if name not in left_out]
        if left_out:
            print(f"left out: {', '.join(left_out)}: {why}", file=sys.stderr)
    workloads = tuple(WORKLOADS) if options.workload == "all" else tuple(options.workload.split(","))
    for seed in range(options.seed, options.seed + options.seeds):
        for fault in faults:
            yield Plan(workloads, fault, seed, strict=options.strict_sessions)


def _report(outcome: Outcome, directory: Path, options: argparse.Namespace) -> int:
    plan = outcome.plan
    if options.json:
        shown = {name: [str(v) for v in found] for name, found in outcome.verdicts.items()}
        print(
            json.dumps({"fault": plan.fault, "seed": plan.seed, "violations": shown, "kept": str(directory)})
        )
        return 0 if outcome.ok else 1
    acknowledged = sum(event.kind == "acknowledged" for event in outcome.events)
    received = sum(event.kind == "received" for event in outcome.events)
    print(
        f"   {acknowledged} acknowledged, {received} received, {outcome.seconds:.0f} s: "
        + ("all promises kept" if outcome.ok else "BROKEN")
    )
    for name, found in outcome.verdicts.items():
        counts: dict[str, int] = {}
        for violation in found:
            counts[violation.promise] = counts.get(violation.promise, 0) + 1
            if counts[violation.promise] <= options.show:
                print(f"   {name}  {violation}")
        if found:
            print(f"   {name}: " + ", ".join(f"{count} {promise}" for promise, count in counts.items()))
    if not outcome.ok:
        me, kept, names = (
            "python -m tests.real.history",
            directory / "history.jsonl",
            ",".join(plan.workloads),
        )
        print(f"   history: {kept}; judge it again: {me} --replay {kept}")
        print(f"   run it again: {me} --workload {names} --fault {plan.fault} --seed {plan.seed}")
    sys.stdout.flush()
    return 0 if outcome.ok else 1


def _table(outcomes: list[Outcome]) -> str:
    """Broken runs of all runs, workload by fault, as Markdown."""
    faults = list(dict.fromkeys(outcome.plan.fault for outcome in outcomes))
    workloads = list(dict.fromkeys(name for outcome in outcomes for name in outcome.plan.workloads))
    lines = ["| broken of runs | " + " | ".join(faults) + " |", "|---|" + "---|" * len(faults)]
    for name in workloads:
        cells = []
        for fault in faults:
            runs = [o for o in outcomes if o.plan.fault == fault and name in o.verdicts]
            cells.append(f"{sum(bool(o.verdicts[name]) for o in runs)}/{len(runs)}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _busy() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.history",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--workload", default="all", help="names with commas, or all")
    add("--fault", default="kill-subscriber", help="names with commas, or all")
    add("--seed", type=int, default=1, help="first seed")
    add("--seeds", type=int, default=1, help="how many")
    add("--minutes", type=float, default=0, help="begin no run after so long")
    add("--busy", type=int, default=0, metavar="N", help="processes that keep the machine busy meanwhile")
    add("--strict-sessions", action="store_true", help="a session has to be present though its node is gone")
    add("--keep", type=Path, metavar="DIR", help="keep histories of all runs here, not of failed ones only")
    add("--json", action="store_true", help="one line of JSON a run")
    add("--show", type=int, default=SHOWN, metavar="N", help="violations shown of each promise")
    add("--list", action="store_true", help="list workloads and faults")
    add("--replay", type=Path, metavar="FILE", help="judge a history again")
    add("--again", type=Path, metavar="FILE", help="run the schedule of a history again, --seeds times")
    add("--minimise", type=Path, metavar="FILE", help="find the smallest run that fails like this one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
