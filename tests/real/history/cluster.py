"""Nodes as an operator has them: ``gossamer start`` with a file, signals, ``gossamer cluster leave``, /ready.

Rules: 1. A node keeps its data directory for the whole run.  2. What was done to a node is noted in the
history at once, before it can have an effect for "down" and after it for "up".  3. Nodes die with this
process, however it ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import socket
import time
from pathlib import Path
from typing import Any

from .history import FULL, ROOM, History
from .network import Network, able
from .nodes import Process, signal_group, spawn

AUTOHEAL = 4.0
"""Seconds after a split until its sides are brought together; not the usual 15, so that a run sees it."""
READY_TIMEOUT = 60.0
STOP_TIMEOUT = 30.0
POLL_INTERVAL = 0.3
_SERVICES = ("mqtt", "api", "gossip", "distribution")
_PORTS = (1883, 8091, 7946, 4370)


class Cluster:
    """Three nodes, and a fourth that is not started with them; ``small_disc``: which has one.

    ``warm``: nodes are forked from a program that has loaded their modules. ``previous``: sources of the
    release before, with which each node is started the first time.
    """

    nodes = range(1, 4)
    _all = range(1, 5)

    def __init__(
        self,
        directory: Path,
        history: History,
        *,
        small_disc: int = 0,
        warm: bool = False,
        previous: Path | None = None,
        autoheal: float = AUTOHEAL,
        replication: str = "",
        on_no_quorum: str = "",
    ) -> None:
        self._autoheal = autoheal
        said = {"replication": replication, "on_no_quorum": on_no_quorum}
        # The release before does not know them.
        self._sessions = {key: value for key, value in said.items() if value and previous is None}
        self._copies = replication != "off" and previous is None
        self._queues = [{"name": "jobs", "visibility_timeout": "20s"}] if previous is None else []
        self._reader = {"anonymous_role": "viewer"} if self._copies else {}
        self._warm = warm
        self.trees = {} if previous is None else dict.fromkeys(self._all, previous)
        """Sources of another release for the next start of a node."""
        self.directory = directory
        self.history = history
        disc = self._data(small_disc) if small_disc else None
        self.net = Network(len(self._all), disc) if not able() else None
        self._small_disc = small_disc if self.net else 0
        self._ports = {node: dict(zip(_SERVICES, _PORTS, strict=True)) for node in self._all}
        self._running: dict[int, Process] = {}
        self.paused: set[int] = set()
        self.doors: dict[int, tuple[str, int]] = {}
        """Where clients may go: as a load balancer that asks /ready, not to a node that has left."""
        self._left: set[int] = set()
        self._commands = itertools.count(1)
        self._cuts: dict[tuple[int, int], float] = {}
        self._seen: dict[int, frozenset[int] | None] = {}
        self._watch: asyncio.Task[None] | None = None
        self._dying: dict[int, Process] = {}

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return {node: (self._host(node), self._ports[node]["mqtt"]) for node in self._all}

    @property
    def running(self) -> set[int]:
        return set(self._running)

    def _host(self, node: int) -> str:
        return self.net.host(node) if self.net else "127.0.0.1"

    def _data(self, node: int) -> Path:
        return self.directory / f"data{node}"

    async def open(self) -> None:
        """Start all nodes and wait until they are one cluster."""
        if self.net is not None:
            self.net.open()
        else:
            self._ports = {node: dict(zip(_SERVICES, _free_ports(4), strict=True)) for node in self._all}
        self.doors.update(self.addresses)
        for node in self._all:
            (self.directory / f"node{node}.yaml").write_text(json.dumps(self._tree(node), indent=1))
        await asyncio.gather(*(self.start(node) for node in self.nodes))
        self._watch = asyncio.create_task(self._look(), name="members")
        if not await self.whole():
            raise RuntimeError(f"no cluster within {READY_TIMEOUT:g} s; see {self.directory}")
        if self._copies and not await self._copied():
            raise RuntimeError(f"no copies within {READY_TIMEOUT:g} s; see {self.directory}")

    def _tree(self, node: int) -> dict[str, object]:
        host, ports = self._host(node), self._ports[node]
        return {
            "node": {
                "name": f"node{node}@{host}",
                "data_dir": str(self._data(node)),
                "cookie": "a cookie for the history",
            },
            "cluster": {
                "host": host,
                "port": ports["gossip"],
                "autoheal": self._autoheal,
                "seed_endpoints": [f"{self._host(n)}:{self._ports[n]['gossip']}" for n in self.nodes],
            },
            "distribution": {"host": host, "port": ports["distribution"]},
            "mqtt": {
                "server": {"listeners": [{"host": host, "port": ports["mqtt"]}]},
                "auth": {"allow_anonymous": True},
                "sessions": self._sessions,
            },
            # The release before does not know them.
            **({"queues": self._queues} if self._queues else {}),
            "api": {"host": "" if self.net else host, "port": ports["api"]} | self._reader,
        }

    async def start(self, node: int) -> bool:
        """Start a node and wait until it says that it is ready."""
        if node in self._running:
            return True
        if node in self._dying:
            await _ended(self._dying.pop(node), READY_TIMEOUT)
        self._running[node] = process = self._spawn(node)
        began = time.monotonic()
        while time.monotonic() - began < READY_TIMEOUT:
            if process.poll() is not None:
                return False
            if await self._ready(node):
                if node in self._left:
                    await self._join(node)
                self.history.record("up", node=node, note=f"after {time.monotonic() - began:.1f} s")
                return True
            await asyncio.sleep(0.1)
        self.history.record("fault", node=node, note=f"not ready within {READY_TIMEOUT:g} s")
        return False

    def _spawn(self, node: int) -> Process:
        name = self.directory / f"node{node}"
        space = self.net.space(node) if self.net else ""
        arguments = ["start", "-c", f"{name}.yaml", "--json", "--log-file", f"{name}.log"]
        return spawn(arguments, name, space=space, warm=self._warm, tree=self.trees.pop(node, None))

    async def _ready(self, node: int) -> bool:
        """Whether its MQTT port takes connections."""
        try:
            async with asyncio.timeout(0.5):
                _, writer = await asyncio.open_connection(*self.addresses[node])
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    def kill(self, *nodes: int) -> None:
        for node in nodes:
            process = self._running.pop(node, None)
            if process is not None:
                self.history.record("down", node=node, note="killed")
                self.paused.discard(node)
                signal_group(process, signal.SIGKILL)
                self._dying[node] = process

    async def stop(self, node: int) -> None:
        """SIGTERM, as systemd does, and SIGKILL when it takes too long."""
        process = self._running.get(node)
        if process is None:
            return
        self.history.record("down", node=node, note="stopped")
        process.send_signal(signal.SIGTERM)
        if not await _ended(process, STOP_TIMEOUT):
            self.history.record("fault", node=node, note=f"SIGTERM did not end it in {STOP_TIMEOUT:g} s")
            signal_group(process, signal.SIGKILL)
        self._running.pop(node, None)

    async def drain(self, node: int) -> None:
        """``gossamer cluster leave --drain``, run where the node is."""
        if node in self._running:
            self.history.record("down", node=node, note="leaves, drained")
            if (await self.command(node, "cluster", "leave", "--drain"))[0] == 0:
                self.doors.pop(node, None)
                self._left.add(node)

    async def _join(self, node: int) -> None:
        """A node that left does not come back by itself."""
        others = [n for n in self.nodes if n != node]
        seeds = [f"{self._host(other)}:{self._ports[other]['gossip']}" for other in others]
        if (await self.command(node, "cluster", "join", *seeds))[0] == 0:
            self._left.discard(node)
            began = time.monotonic()
            while not await self._members(node) and time.monotonic() - began < READY_TIMEOUT:  # noqa: ASYNC110
                await asyncio.sleep(POLL_INTERVAL)
            self.doors[node] = self.addresses[node]

    async def command(self, node: int, *arguments: str) -> tuple[int, str, str]:
        """Run a command where the node is; its exit code, and what it printed on both outputs."""
        out = self.directory / f"command{next(self._commands)}"
        space = self.net.space(node) if self.net else ""
        command = [*arguments, "--api", f"http://127.0.0.1:{self._ports[node]['api']}"]
        process = spawn(command, out, space=space, warm=self._warm)
        if not await _ended(process, READY_TIMEOUT):
            signal_group(process, signal.SIGKILL)
        code = process.wait()
        printed, said = (Path(f"{out}.{end}").read_text(errors="replace") for end in ("out", "err"))  # noqa: ASYNC240
        if code:
            self.history.record("fault", node=node, note=f"{' '.join(arguments)}: {code}, {said}")
        return code, printed, said

    def pause(self, node: int) -> None:
        if node in self._running and node not in self.paused:
            self.history.record("paused", node=node)
            self.paused.add(node)
            signal_group(self._running[node], signal.SIGSTOP)

    def resume(self, node: int) -> None:
        if node in self._running and node in self.paused:
            signal_group(self._running[node], signal.SIGCONT)
            self.paused.discard(node)
            self.history.record("resumed", node=node)

    def cut(self, source: int, target: int, share: float = 1.0) -> None:
        """Drop packets of nodes from source to target."""
        if self.net is not None and self._cuts.get((source, target)) != share:
            note = "" if share >= 1 else f"{share:g}"
            self.history.record("cut", node=source, code=target, note=note)
            self._cuts[source, target] = share
            self.net.lose(self._cuts)

    def uncut(self) -> None:
        cuts, self._cuts = self._cuts, {}
        if self.net is not None and cuts:
            self.net.lose({})
        for source, target in cuts:
            self.history.record("joined", node=source, code=target)

    def fill(self) -> None:
        """Leave no room on the small disc."""
        if not self._small_disc:
            return
        self.history.record("fault", node=self._small_disc, note=FULL)
        block = bytes(1 << 16)
        try:
            with (self._data(self._small_disc) / "filler").open("ab", buffering=0) as file:
                while file.write(block):
                    pass
        except OSError:
            pass

    def unfill(self) -> None:
        if self._small_disc:
            (self._data(self._small_disc) / "filler").unlink(missing_ok=True)
            self.history.record("fault", node=self._small_disc, note=ROOM)

    async def recover(self) -> None:
        """Undo every fault, and start what does not run."""
        self.uncut()
        self.unfill()
        for node in list(self.paused):
            self.resume(node)
        for node, process in list(self._running.items()):
            if process.poll() is not None:
                self.history.record("down", node=node, note=f"ended by itself with {process.returncode}")
                del self._running[node]
        await asyncio.gather(*(self.start(node) for node in self.nodes if node not in self._running))

    async def whole(self, timeout: float = READY_TIMEOUT) -> bool:
        """Wait until every node that runs sees all that run."""
        everybody = frozenset(self._running)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            # A busy node may take its time, and is not broken for that.
            seen = await asyncio.gather(*(self._members(node, 5.0) for node in everybody))
            if all(members is not None and members >= everybody for members in seen):
                self.history.record("whole")
                return True
            await asyncio.sleep(POLL_INTERVAL)
        self.history.record("not whole", note=f"within {timeout:g} s: {seen}")
        return False

    async def _look(self) -> None:
        """Note whom each node sees, whenever that changes."""
        while True:
            for node in self._all:
                members = await self._members(node) if node in self._running else None
                if self._seen.get(node, frozenset()) != members:
                    self._seen[node] = members
                    note = ",".join(map(str, sorted(members or ())))
                    self.history.record("members", node=node, note=note)
            await asyncio.sleep(POLL_INTERVAL)

    async def _members(self, node: int, within: float = 1.0) -> frozenset[int] | None:
        """Whom a node says it sees, itself included, while it is ready; None: it does not answer."""
        if node in self.paused:
            return None
        ready, answer = await self._get(node, "/ready", within)
        if answer is None:
            return None
        if not ready:
            return frozenset()
        return frozenset(int(name.partition("@")[0].removeprefix("node")) for name in answer["members"])

    async def leaders(self) -> dict[int, str]:
        """Return the names of the nodes that lead ranges of keys, by range, where sessions are copied."""
        ranges = await self._ranges() if self._copies else []
        return {int(group["kind"].partition("/")[2]): group["leader"] for group in ranges}

    async def _ranges(self) -> list[Any]:
        _, groups = await self._get(self.nodes[0], "/api/v1/raft", 5.0)
        return [group for group in groups or () if group["kind"].startswith("basekv/")]

    async def _copied(self) -> bool:
        """Wait until sessions are copied: each range of keys has three voters."""
        deadline = time.monotonic() + READY_TIMEOUT
        while time.monotonic() < deadline:
            ranges = await self._ranges()
            voters = [sum(member["voter"] for member in group["members"]) for group in ranges]
            if voters and min(voters) == len(self.nodes):
                return True
            await asyncio.sleep(POLL_INTERVAL)
        return False

    async def _get(self, node: int, path: str, within: float) -> tuple[bool, Any]:
        """Return whether a node answers 200, and what; None: it does not answer."""
        host = self._host(node)
        try:
            async with asyncio.timeout(within):
                reader, writer = await asyncio.open_connection(host, self._ports[node]["api"])
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
                writer.close()
            return b" 200 " in head[:20], json.loads(body)
        except (OSError, TimeoutError, ValueError):
            return False, None

    async def close(self) -> None:
        """Kill all, and take everything away. May be called again."""
        if self._watch is not None:
            self._watch.cancel()
        processes = list(self._running.values())
        self._running.clear()
        for process in processes:
            if process.poll() is None:
                signal_group(process, signal.SIGKILL)
        for process in processes:
            process.wait()
        if self.net is not None:
            self.net.close()


async def _ended(process: Process, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return process.poll() is not None


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
