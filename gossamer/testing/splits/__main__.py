"""``python -m gossamer.testing.splits``: seed after seed; a failing one says how to replay it."""

from __future__ import annotations

import argparse
import os
import sys
import time

from gossamer.testing.seeds import fix_hashes
from gossamer.testing.splits.runner import run_seed, run_seeds
from gossamer.testing.splits.scenarios import SCENARIOS


def main() -> int:
    """The exit code: 0 where all that had to hold held."""
    parser = argparse.ArgumentParser(prog="python -m gossamer.testing.splits", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many (10000 for a night)")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with all that it says")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="always this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    begun = time.monotonic()
    if arguments.seed is not None:
        outcome = run_seed(arguments.seed, arguments.scenario or "")
        sys.stdout.write(f"{outcome}\n")
        return 0 if outcome.ok else 1
    numbers = range(arguments.first, arguments.first + arguments.seeds)
    bad = 0
    for count, outcome in enumerate(run_seeds(numbers, arguments.scenario or "", arguments.jobs), 1):
        if not outcome.ok:
            bad += 1
            sys.stdout.write(f"{outcome}\n")
        if count % 100 == 0 or count == arguments.seeds:
            spent = time.monotonic() - begun
            sys.stdout.write(f"{count} seeds, {bad} failed, {spent:.0f} s\n")
            sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    fix_hashes()
    sys.exit(main())
