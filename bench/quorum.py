"""Writes that two of three discs have: a range of keys, beside etcd in a cluster of three, on this machine.

    python bench/quorum.py [--size 256] [--seconds 5] [--writers 1 64 256] [--rounds 3]

Three nodes, or three members of etcd, on loopback; each of their discs is a directory of its own below
``--dir``. ``--writers`` writers put values of ``--size`` bytes under 1,000 keys, each the next one once the
last is acknowledged: with gossamer processes of the first node, with etcd streams of one connection to its
leader. ``sync`` is what one write and sync of such a record takes on that disc, alone. Medians of the rounds,
peers in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

KEYS = 1000
WITHIN = 60.0


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def sync_seconds(directory: Path, size: int) -> float:
    """Median time of a write and sync of ``size`` bytes."""
    file = os.open(directory / "sync", os.O_RDWR | os.O_CREAT)
    took = []
    for number in range(200):
        begun = time.perf_counter()
        os.pwrite(file, os.urandom(size), number * 4096)
        os.fdatasync(file)
        took.append(time.perf_counter() - begun)
    os.close(file)
    return statistics.median(took)


class Writers:
    """So many writers that ``put``, each the next once the last is done; ``begin`` starts one of them."""

    def __init__(self, put, size: int, begin=asyncio.ensure_future) -> None:
        self._put, self._size, self._begin = put, size, begin
        self.took: list[float] = []

    async def run(self, number: int, seconds: float) -> dict[str, float]:
        """Return writes a second, and the median and 99th percentile of their times."""
        until = time.perf_counter() + seconds
        await asyncio.gather(*(self._begin(self._write(until)) for _ in range(number)))
        took = sorted(self.took)
        return {
            "rate": len(took) / seconds,
            "p50": took[len(took) // 2],
            "p99": took[len(took) * 99 // 100],
        }

    async def _write(self, until: float) -> None:
        while (begun := time.perf_counter()) < until:
            key = b"bench/%03d" % random.randrange(KEYS)
            await self._put(key, os.urandom(self._size))
            self.took.append(time.perf_counter() - begun)


# -- gossamer: this module is an application of the first node, too


def application(_node):
    """Return what the first node runs: a process that waits for orders."""
    from gossamer.supervisor import ChildSpec, spawn_link

    async def start():
        return spawn_link(serve, label="bench")

    return [ChildSpec("bench", start)]


async def serve() -> None:
    """Measure what is asked for in one file, and tell it in another."""
    from gossamer import basekv
    from gossamer.supervisor import Runtime

    runtime = Runtime.current()

    async def put(key: bytes, value: bytes) -> None:
        await basekv.write([basekv.Put(key, value)])

    async def body(writer) -> None:
        await writer

    def begin(writer):
        return asyncio.ensure_future(runtime.run(body, writer))

    await ready(put)
    while True:
        if (order := taken(Path(os.environ["ASKED"]))) is not None:
            got = await Writers(put, order["size"], begin).run(order["writers"], order["seconds"])
            give(Path(os.environ["TOLD"]), got)
        await asyncio.sleep(0.02)


async def ready(put) -> None:
    """Wait until the ranges have three voters each."""
    from gossamer.errors import GossamerError
    from gossamer.supervisor import call

    while True:
        with suppress(GossamerError):
            await put(b"bench/ready", b"")
            groups = await call("raft", "status")
            if all(sum(one["voter"] for one in group["members"]) == 3 for group in groups):
                return
        await asyncio.sleep(0.2)


def taken(path: Path):
    """Return what a file has, and remove it; None: it is not there."""
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    path.unlink()
    return found


def give(path: Path, told) -> None:
    path.with_suffix(".new").write_text(json.dumps(told))
    path.with_suffix(".new").rename(path)


class Gossamer:
    """Three nodes."""

    def __init__(self, directory: Path) -> None:
        self._asked, self._told = directory / "asked", directory / "told"
        gossip = free_ports(3)
        self._processes = []
        for number in range(3):
            home = directory / f"node{number}"
            home.mkdir()
            config = {
                "node": {
                    "name": f"node{number}@127.0.0.1",
                    "cookie": "bench-of-a-quorum",
                    "data_dir": str(home / "data"),
                    "applications": ["quorum:application"] if number == 0 else [],
                },
                "cluster": {
                    "host": "127.0.0.1",
                    "port": gossip[number],
                    "seed_endpoints": [f"127.0.0.1:{port}" for port in gossip],
                    "discovery": {"strategy": "static"},
                },
                "distribution": {"host": "127.0.0.1", "port": 0},
                "mqtt": {"server": {"enable": False}},
                "api": {"enable": False},
            }
            path = home / "node.json"
            path.write_text(json.dumps(config))
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
                "ASKED": str(self._asked),
                "TOLD": str(self._told),
            }
            command = [sys.executable, "-m", "gossamer.cli", "start", "-c", str(path)]
            log = (home / "log").open("wb")
            self._processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    async def run(self, writers: int, size: int, seconds: float) -> dict[str, float]:
        give(self._asked, {"writers": writers, "size": size, "seconds": seconds})
        async with asyncio.timeout(WITHIN + seconds):
            while (told := taken(self._told)) is None:  # noqa: ASYNC110 - a process that has only files
                await asyncio.sleep(0.05)
        return told

    async def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


class Etcd:
    """Three members of etcd, asked by way of the one that leads."""

    def __init__(self, directory: Path) -> None:
        peers, self._clients = free_ports(3), free_ports(3)
        together = ",".join(f"m{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers))
        self._processes = []
        for n in range(3):
            client, peer = f"http://127.0.0.1:{self._clients[n]}", f"http://127.0.0.1:{peers[n]}"
            command = ["etcd", "--name", f"m{n}", "--data-dir", str(directory / f"etcd{n}")]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            command += ["--initial-cluster", together]
            log = (directory / f"etcd{n}.log").open("wb")
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    async def run(self, writers: int, size: int, seconds: float) -> dict[str, float]:
        import aetcd

        async with asyncio.timeout(WITHIN + seconds):
            port = await self._leader(aetcd)
            async with aetcd.Client(port=port) as client:
                return await Writers(client.put, size).run(writers, seconds)

    async def _leader(self, aetcd) -> int:
        while True:
            for port in self._clients:
                with suppress(aetcd.ClientError):
                    async with aetcd.Client(port=port, timeout=1) as client:
                        leader = (await client.status()).leader
                        if leader is not None and leader.name == f"m{self._clients.index(port)}":
                            return port
            await asyncio.sleep(0.2)

    async def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


PEERS = {"gossamer": Gossamer, "etcd": Etcd}


async def measure(options: argparse.Namespace, directory: Path) -> None:
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    names = options.peers.split(",")
    for turn in range(options.rounds):
        for name in names:
            home = directory / f"{name}{turn}"
            home.mkdir()
            peer = PEERS[name](home)
            try:
                for writers in options.writers:
                    # The first second is not counted: connections, caches, the first elections.
                    await peer.run(writers, options.size, 1.0)
                    found.setdefault((name, writers), []).append(
                        await peer.run(writers, options.size, options.seconds)
                    )
            finally:
                await peer.stop()
    sync, load = 1e3 * sync_seconds(directory, options.size), os.getloadavg()[0]
    print(f"values of {options.size} B, {os.cpu_count()} cores, load {load:.1f}, sync {sync:.2f} ms")
    print(f"{'':10}{'writers':>8}{'writes/s':>10}{'p50':>10}{'p99':>10}")
    for (name, writers), rounds in sorted(found.items(), key=lambda item: (item[0][1], item[0][0])):
        rate, p50, p99 = (statistics.median(one[field] for one in rounds) for field in ("rate", "p50", "p99"))
        print(f"{name:10}{writers:8}{rate:10,.0f}{1e3 * p50:7.2f} ms{1e3 * p99:7.2f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="gossamer,etcd")
    parser.add_argument("--dir", type=Path, help="a directory of the disc that is measured")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.dir) as made:
        asyncio.run(measure(chosen, Path(made)))
