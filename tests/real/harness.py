"""Clusters and nodes as operating-system processes, for tests that want the real thing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

GOSSAMER = (sys.executable, "-m", "gossamer.cli")
FREE_PORTS = ("--mqtt-port", "0", "--api-port", "0", "--gossip-port", "0", "--distribution-port", "0")
PATIENCE = 60.0


def eventually(what: Callable[[], Any], *, seconds: float = PATIENCE, says: str = "") -> Any:
    """The first true value of ``what``; asked again and again, since nobody here is told of changes."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {says or what}")
        time.sleep(0.05)


def run(
    *arguments: str | Path, timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """``gossamer …`` to its end."""
    command = [*GOSSAMER, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)


def _interruptible() -> None:
    """Ctrl-C counts, also where the tests were started in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Program:
    """A ``gossamer`` command that keeps running; output goes to files, so that nothing blocks."""

    command: tuple[str, ...] = GOSSAMER
    directory: Path | None = None

    def __init__(self, directory: Path, *arguments: str | Path, **environ: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.out_file = directory / "out"
        self.err_file = directory / "err"
        with self.out_file.open("w") as out, self.err_file.open("w") as err:
            self.process = subprocess.Popen(
                [*self.command, *map(str, arguments)],
                stdout=out,
                stderr=err,
                cwd=self.directory,
                env={**os.environ, **environ},
                start_new_session=True,
                preexec_fn=_interruptible,
            )

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    @property
    def err(self) -> str:
        return self.err_file.read_text()

    def wait_for_ready(self) -> dict[str, Any]:
        """The facts of the ready line (``--json``)."""

        def ready() -> str:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.err}"
            return self.out

        return json.loads(eventually(ready, says="the ready line"))

    def family(self) -> list[psutil.Process]:
        """This process and all below it."""
        me = psutil.Process(self.process.pid)
        return [me, *me.children(recursive=True)]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


class Cluster(Program):
    """``gossamer up`` on free ports."""

    def __init__(self, directory: Path, *options: str, nodes: int = 3) -> None:
        self.data_dir = directory / "data"
        super().__init__(
            directory,
            "up",
            "--nodes",
            str(nodes),
            "--data-dir",
            self.data_dir,
            *FREE_PORTS,
            *options,
            "--json",
        )
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        try:
            self.facts = self.wait_for_ready()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return self.facts["nodes"]

    def api(self, number: int) -> str:
        """URL of the API of node ``number``, from 1."""
        return f"http://127.0.0.1:{self.nodes[number - 1]['ports']['api']}"

    def get(self, number: int, path: str) -> Any:
        return httpx.get(self.api(number) + path, trust_env=False, timeout=10).json()

    def port(self, number: int, service: str = "mqtt") -> str:
        return str(self.nodes[number - 1]["ports"][service])

    def facts_file(self) -> dict[str, Any] | None:
        try:
            return json.loads((self.data_dir / "cluster.json").read_text())
        except FileNotFoundError:
            return None
