"""However a drill ends, nothing of it is left: no process, no directory, no port."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from gossamer.cli import ExitCode
from gossamer.drill.stage.backend import GateBackEnd
from gossamer.supervisor import Runtime
from real.harness import Program, alive, eventually


def begun(tmp_path: Path, until: str) -> Program:
    """A drill of two nodes that has come so far; what it makes goes below a directory of its own."""
    (tmp_path / "made").mkdir()
    options = ("--nodes", "2", "--load", "50", "--warm-up", "1s", "--for", "60s")
    drill = Program(tmp_path / "drill", "drill", "partition", *options, TMPDIR=str(tmp_path / "made"))
    eventually(lambda: until in drill.out or drill.process.poll() is not None, says=until)
    assert drill.process.poll() is None, drill.err
    return drill


@pytest.mark.parametrize(
    ("number", "until"),
    [
        (signal.SIGINT, "fault applied"),
        (signal.SIGTERM, "--- starting"),
        (signal.SIGKILL, "fault applied"),
    ],
)
def test_a_drill_that_is_ended_leaves_nothing(tmp_path: Path, number: int, until: str) -> None:
    drill = begun(tmp_path, until)
    eventually(lambda: len(drill.family()) > 2, says="the drill, its janitor and nodes")
    family = drill.family()
    [directory] = eventually(lambda: list((tmp_path / "made").glob("gossamer-drill-*")))
    code = drill.end(number)
    if number == signal.SIGKILL:
        # The kernel ends the nodes, the janitor the rest.
        assert code == -signal.SIGKILL
    else:
        assert code == ExitCode.UNAVAILABLE
        assert "interrupted" in drill.err
        assert not alive(family)
        assert not directory.exists()
    eventually(lambda: not alive(family), seconds=30, says="all processes are gone")
    eventually(lambda: not list((tmp_path / "made").iterdir()), seconds=30, says="the directory is gone")


def test_a_cluster_that_does_not_start_leaves_nothing_and_says_who_lacks_what(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    options = ("--nodes", "2", "--timeout", "1s", "--load", "10")
    drill = Program(tmp_path / "drill", "drill", "kill", *options, TMPDIR=str(tmp_path / "made"))
    eventually(lambda: drill.process.poll() is not None, says="it gave up")
    assert drill.process.returncode == ExitCode.UNAVAILABLE
    assert "not ready after 1 s" in drill.err
    assert "Traceback" not in drill.err
    # A node that is killed in the moment in which it calls another leaves the directory of that call.
    left = {one.name for path in (tmp_path / "made").iterdir() for one in path.iterdir()}
    assert left <= {"link"}


async def test_a_back_end_that_is_interrupted_as_a_node_starts_closes_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def never(*_: object, **__: Any) -> object:
        asked.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr(Runtime, "call", never)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    backend = GateBackEnd(ended=lambda name, how: None)
    start = asyncio.create_task(backend.start(nodes=1, directory=tmp_path, settings={}, start_timeout=30))
    await asyncio.wait_for(asked.wait(), 30)
    start.cancel()
    await asyncio.wait({start})
    await asyncio.wait_for(backend.close(), 30)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
