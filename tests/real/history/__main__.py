"""Run workloads against real nodes while they are broken, and judge what clients saw.

::

    python -m tests.real.history                                     every stream, kill -9 of one, seed 1
    python -m tests.real.history --workload roam-1,roam-2 --fault pause --seed 7 --seeds 5
    python -m tests.real.history --fault all --minutes 30            the matrix, as long as there is time
    python -m tests.real.history --fault all --seeds 20 --pace 0.3 --warm --jobs 2 --json >> LINES
    python -m tests.real.history --table LINES                       the table of all runs in these lines
    python -m tests.real.history --replay DIR/history.jsonl          judge a history again, without a cluster
    python -m tests.real.history --again DIR/history.jsonl           run the same schedule again
    python -m tests.real.history --minimise DIR/history.jsonl     the smallest run that still fails

Workloads named together share one cluster and are judged each for itself. Nodes run in network namespaces
(root, ip, nft); without these, on loopback, and the faults of the network are left out. Each run leaves its
history, configuration and logs of the nodes below --keep. Exit code: 0 all promises kept, 1 some were broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from .faults import FAULTS
from .history import read
from .matrix import Manner, matrix
from .network import able
from .nodes import die_with_parent
from .previous import lacking
from .report import Line, broken, in_words, line_of, read_lines, table
from .run import Outcome, Plan, judged
from .workloads import WORKLOADS

SHOWN = 6


def main() -> int:
    options = _options()
    if options.list:
        for names in (WORKLOADS, FAULTS):
            for row in names.values():
                print(f"{row.name:16} {row.says}")
            print()
        return 0
    if options.table:
        print(table(read_lines(options.table)))
        return 0
    if options.replay:
        return _report(map(_replayed, options.replay), options)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="gossamer-history-"))
    crowd = [_busy() for _ in range(options.busy)]
    try:
        if options.minimise:
            from .minimise import minimise

            header, events = read(options.minimise)
            return minimise(Plan.of_header(header), events, keep, options.minutes)
        keep_all = options.keep is not None
        manner = Manner(keep, keep_all, options.jobs, options.minutes, options.busy)
        return _report(matrix(_plans(options), manner), options)
    finally:
        for process in crowd:
            process.kill()
            process.wait()


def _replayed(path: Path) -> Line:
    header, events = read(path)
    plan = Plan.of_header(header)
    seconds = events[-1].at if events else 0.0
    return line_of(Outcome(plan, events, judged(plan, events), seconds, path.parent))


def _report(lines: Iterable[Line], options: argparse.Namespace) -> int:
    seen = []
    for line in lines:
        seen.append(line)
        print(json.dumps(line) if options.json else in_words(line, options.show), flush=True)
    if not (options.json or options.replay):
        print(table(seen))
    return int(any(map(broken, seen)))


def _plans(options: argparse.Namespace) -> Iterator[Plan]:
    if options.again:
        plan = Plan.of_header(read(options.again)[0])
        if options.workload != "all":
            plan = replace(plan, workloads=tuple(options.workload.split(",")))
        for _ in range(options.seeds):
            yield plan
        return
    faults = list(FAULTS) if options.fault == "all" else options.fault.split(",")
    for needs, why in (("network", able()), ("previous", lacking())):
        left_out = [name for name in faults if why and getattr(FAULTS[name], needs)]
        faults = [name for name in faults if name not in left_out]
        if left_out:
            print(f"left out: {', '.join(left_out)}: {why}", file=sys.stderr)
    workloads = tuple(WORKLOADS) if options.workload == "all" else tuple(options.workload.split(","))
    for seed in range(options.seed, options.seed + options.seeds):
        for fault in faults:
            previous = FAULTS[fault].previous
            there = tuple(name for name in workloads if not (previous and WORKLOADS[name].new))
            if not there:
                continue
            yield Plan(
                there,
                fault,
                seed,
                strict=options.strict_sessions,
                pace=options.pace,
                warm=options.warm,
                replication=options.replication,
                on_no_quorum=options.no_quorum,
            )


def _busy() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=die_with_parent)


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
    add("--pace", type=float, default=1.0, metavar="RATE", help="0.3: three tenths of the messages a second")
    add("--warm", action="store_true", help="fork nodes from a program that has their modules loaded")
    add("--jobs", type=int, default=1, metavar="N", help="runs side by side")
    add("--replication", default="", metavar="auto|off", help="whether sessions are copied to a quorum")
    add("--no-quorum", default="", metavar="local|refuse", help="what clients get where there is none")
    add("--busy", type=int, default=0, metavar="N", help="processes that keep the machine busy meanwhile")
    add("--strict-sessions", action="store_true", help="a session has to be present though its node is gone")
    add("--keep", type=Path, metavar="DIR", help="keep histories of all runs here, not of failed ones only")
    add("--json", action="store_true", help="one line of JSON a run")
    add("--show", type=int, default=SHOWN, metavar="N", help="violations shown of each promise")
    add("--list", action="store_true", help="list workloads and faults")
    add("--table", type=Path, nargs="+", metavar="FILE", help="Markdown of lines that --json printed")
    add("--replay", type=Path, nargs="+", metavar="FILE", help="judge histories again")
    add("--again", type=Path, metavar="FILE", help="run the plan of a history again, --seeds times")
    add("--minimise", type=Path, metavar="FILE", help="find the smallest run that fails like this one")
    options = parser.parse_args()
    for given, known in ((options.workload, WORKLOADS), (options.fault, FAULTS)):
        if wrong := set(given.split(",")) - {"all", *known}:
            parser.error(f"no such name: {', '.join(sorted(wrong))}; --list shows them")
    return options


if __name__ == "__main__":
    sys.exit(main())
