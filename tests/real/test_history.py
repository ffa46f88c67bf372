"""Real nodes, broken on purpose and judged by what clients saw: a fixed selection, five minutes at most.

``python -m tests.real.history --fault all --minutes 30`` is the nightly run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from real.history.faults import FAULTS
from real.history.network import able

ROOT = Path(__file__).parents[2]
CALM = "home-1,home-2,away-1,away-2,visible,retained,churn"
FAST = ("--pace", "0.3", "--warm")
SMALL = ("--pace", "0.2", "--warm")
SELECTION = [
    (CALM, "none", 1, ()),
    (f"{CALM},roam-1,wills,twins,shared", "kill-subscriber", 1, FAST),
    ("home-1,home-2,visible,churn", "cut", 1, FAST),
    ("all", "kill-all", 2, SMALL),
    ("all", "rolling", 3, SMALL),
    ("all", "join", 4, SMALL),
    ("all", "pause", 5, SMALL),
    ("all", "one-way", 1, SMALL),
    ("all", "kill-owner", 6, SMALL),
    ("all", "kill-owner", 6, (*SMALL, "--replication", "off")),
]
"""What the product keeps today, with copies of sessions unless it is said; a cell of the matrix that is
mended belongs here."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("workloads", "fault", "seed", "manner"), SELECTION)
def test_clients_see_every_promise_kept(
    tmp_path: Path, workloads: str, fault: str, seed: int, manner: tuple[str, ...]
) -> None:
    if FAULTS[fault].network and (why := able()):
        pytest.skip(why)
    command = [sys.executable, "-m", "tests.real.history", "--workload", workloads, "--fault", fault]
    command += ["--seed", str(seed), "--keep", str(tmp_path), *manner]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
