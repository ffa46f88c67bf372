"""``python -m gossamer.testing.roaming``: seed after seed; a failing one says how to replay it."""

from __future__ import annotations

import argparse
import os
import sys

from gossamer.testing.roaming.runner import run_seed, run_seeds
from gossamer.testing.roaming.world import FAULTS
from gossamer.testing.seeds import fix_hashes


def main() -> int:
    """The exit code: 0 where all that had to hold held."""
    parser = argparse.ArgumentParser(prog="python -m gossamer.testing.roaming", description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(FAULTS), help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with all that it says")
    parser.add_argument("--fault", choices=sorted(FAULTS), default="", help="always this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        outcome = run_seed(arguments.seed, arguments.fault, verbose=True)
        sys.stdout.write(f"{outcome}\n")
        return 1 if outcome.problems else 0
    bad = 0
    numbers = range(arguments.first, arguments.first + arguments.seeds)
    for outcome in run_seeds(numbers, arguments.fault, arguments.jobs):
        bad += bool(outcome.problems)
        sys.stdout.write(f"{outcome}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(numbers)} seeds, {bad} failed\n")
    return 1 if bad else 0


if __name__ == "__main__":
    fix_hashes()
    sys.exit(main())
