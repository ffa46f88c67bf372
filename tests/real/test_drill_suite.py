"""A suite of one short drill on real processes: it keeps what does not hang on the speed of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from real.harness import run

TIMED = "within"
"""In the promises that a machine with other things to do may break."""


@pytest.mark.timeout(240)
def test_a_suite_of_one_drill_from_the_command_to_the_page(tmp_path: Path):
    data, page = tmp_path / "suite.json", tmp_path / "suite.html"
    done = run(
        *("drill", "suite", "--quick", "--only", "partition 2/1", "--for", "8s", "--load", "60"),
        *("--json", data, "--html", page),
        timeout=200,
    )
    assert done.returncode in (0, 8), done.stderr
    told = json.loads(data.read_text())
    (name,) = told["drills"]
    drill = told["drills"][name]
    assert (name, drill["failure"]) == ("partition 2/1", "")
    broken = [row for row in told["promises"] if row["kept"] is False]
    assert [row for row in broken if TIMED not in row["promise"]] == []
    assert {row["judged_in"] for row in told["promises"] if row["kept"] is not None} == {1}
    assert (done.returncode == 0) is (not broken)
    assert told["promises"][0]["promise"] in done.stdout
    assert "partition 2/1" in page.read_text()
    # Nothing is left: no process, no directory.
    directory = drill["quarantined"][0]["file"].partition("/node")[0]
    assert not Path(directory).exists()
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    assert not [path for path in processes if directory.encode() in _command(path)]


def test_a_node_that_ends_at_the_start_is_told_with_its_log():
    done = run("drill", "partition", "--nodes", "2", "--set", "mqtt.limits.max_inflight=0")
    assert done.returncode == 6
    assert "ended at start (exit code 3); its log, " in done.stderr
    assert "mqtt.limits.max_inflight" in done.stderr


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
