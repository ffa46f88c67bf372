"""Clusters and nodes as operating-system processes, for tests that want the real thing."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
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


def alive(family: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that have not ended."""
    return [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def ask(url: str) -> Any:
    """What the API of a node answers."""
    return httpx.get(url, trust_env=False, timeout=10).json()


def node_file(directory: Path, name: str = "solo@127.0.0.1", **changes: Any) -> Path:
    """The configuration of one node on free ports of its host; ``changes`` go into its sections."""
    host = name.partition("@")[2]
    tree: dict[str, Any] = {
        "node": {"name": name, "data_dir": str(directory / "data")},
        "cluster": {"host": host, "port": 0},
        "distribution": {"host": host, "port": 0},
        "mqtt": {"server": {"listeners": [{"host": host, "port": 0}]}},
        "api": {"host": host, "port": 0},
    }
    for section, keys in changes.items():
        tree[section] = {**tree.get(section, {}), **keys}
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "node.yaml"
    file.write_text(json.dumps(tree))
    return file


class Node(Program):
    """``gossamer start`` with such a configuration."""

    def __init__(self, directory: Path, name: str = "solo@127.0.0.1", **changes: Any) -> None:
        self.name = name
        self.host = name.partition("@")[2]
        super().__init__(directory, "start", "-c", node_file(directory, name, **changes), "--json")

    @functools.cached_property
    def ports(self) -> dict[str, int]:
        """By service, once it is ready."""
        return self.wait_for_ready()["ports"]

    @property
    def api(self) -> str:
        return f"http://{self.host}:{self.ports['api']}"

    def get(self, path: str) -> Any:
        return ask(self.api + path)

    def sees(self) -> set[str]:
        """The members that it is linked with, itself among them; none while it is not ready."""
        answer = self.get("/ready")
        return set(answer["members"]) if answer["ready"] else set()


def whole(*nodes: Node) -> bool:
    """Are these one cluster, and nobody else in it?"""
    names = {node.name for node in nodes}
    return all(node.sees() == names for node in nodes)


class InThread:
    """A server of asyncio in a loop of its own, beside a test that waits for processes."""

    def __init__(self, server: AbstractAsyncContextManager[object]) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])

    def do(self, coroutine: Coroutine[Any, Any, object]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        async with self._server:
            self._up.set()
            await self._over.wait()


class Cluster(Program):
    """``gossamer up`` on free ports."""

    def __init__(self, directory: Path, *options: str, nodes: int = 3, **environ: str) -> None:
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
            **environ,
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
        return ask(self.api(number) + path)

    def port(self, number: int, service: str = "mqtt") -> str:
        return str(self.nodes[number - 1]["ports"][service])

    def member(self, number: int, seen_by: int = 1) -> dict[str, Any]:
        """What a node says of another; its process may be another one than at first."""
        name = self.nodes[number - 1]["name"]
        return next(one for one in self.get(seen_by, "/api/v1/members") if one["name"] == name)

    def kill(self, number: int, seen_by: int = 1) -> int:
        """``kill -9`` of a node; the process that it was."""
        pid = int(self.member(number, seen_by)["pid"])
        os.kill(pid, signal.SIGKILL)
        return pid

    def port_of_next_life(self, number: int, *killed: int) -> str:
        """Where a node takes clients once it is back; blank before."""
        found = self.member(number)
        back = found["status"] == "online" and found["pid"] not in killed and "mqtt" in found["services"]
        return str(found["ports"]["mqtt"]) if back else ""

    def cut(self, *groups: tuple[int, ...]) -> None:
        """Have every node cut off those of other groups, and nobody else; no groups: nobody at all."""
        for number in range(1, len(self.nodes) + 1):
            mine = next((group for group in groups if number in group), ())
            apart = [other for group in groups if group is not mine for other in group]
            faults = [{"peer": self.nodes[peer - 1]["name"], "cut": True} for peer in apart]
            answer = httpx.put(
                self.api(number) + "/api/v1/drill/faults",
                json={"faults": faults},
                trust_env=False,
                timeout=30,
            )
            assert answer.status_code == 200, answer.text

    def online(self, number: int) -> set[int]:
        """The nodes that node ``number`` has a link to or believes to be there."""
        members = self.get(number, "/api/v1/members")
        return {int(str(m["name"])[4]) for m in members if m["status"] != "offline"}

    def wait_until_whole(self) -> None:
        """Also where a node was killed a moment ago, and nothing answers at its port."""

        def sees_all(number: int) -> bool:
            try:
                return len(self.get(number, "/ready").get("members", ())) == len(self.nodes)
            except httpx.TransportError:
                return False

        for number in range(1, len(self.nodes) + 1):
            eventually(functools.partial(sees_all, number), says="whole again")

    def facts_file(self) -> dict[str, Any] | None:
        try:
            return json.loads((self.data_dir / "cluster.json").read_text())
        except FileNotFoundError:
            return None
