"""What the API costs a node that is busy, and how it lists what a cluster holds.

    python bench/api.py cost                   throughput with and without console, metrics and `gossamer top`
    python bench/api.py list --clients 100000  all clients of three nodes, while messages are published

``cost`` runs a node on core 0 under full load from core 1 (ten pairs, QoS 0), where those who look are, too:
rounds with nobody and rounds with all of them take turns, and what counts is messages a second of the node's
own processor time, which other people's load does not change. Bar: 3 %.

``list`` opens connections up to the limit on open files and makes persistent sessions for the rest, a third
on each node. It shows how long ``GET /api/v1/clients?format=ndjson`` takes, what memory the node that answers
grows by, and what publishing at a fixed rate meanwhile feels. Bar: 5 s for 100,000.
"""

import argparse
import contextlib
import http.client
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import load

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SPARE = 1500
"""Files that a node keeps for other things than clients."""
LOOKS = {
    "/api/v1/autoheal": 2,
    "/api/v1/autoheal/history": 3,
    "/api/v1/clients?limit=100": 3,
    "/api/v1/topics?limit=100": 4,
    "/api/v1/autoheal/plan": 5,
    "/metrics": 5,
}
"""Seconds between two looks: two pages of the console, and a scraper."""


class Cluster:
    """``gossamer up`` on free ports, in a directory that goes away."""

    def __init__(self, nodes: int, **environ: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="bench-")
        ports = [f"--{name}-port=0" for name in ("mqtt", "api", "gossip", "distribution")]
        command = [sys.executable, "-m", "gossamer.cli", "up", "--json", f"--nodes={nodes}", *ports]
        command += ["--data-dir", self._directory.name]
        self._log = (Path(self._directory.name) / "log").open("wb")
        self._up = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, env={**os.environ, **environ}
        )
        assert self._up.stdout is not None
        line = self._up.stdout.readline()
        if not line:
            sys.exit((Path(self._directory.name) / "log").read_text())
        facts = json.loads(line)["nodes"]
        self.pids = [node["pid"] for node in facts]
        self.mqtt = [node["ports"]["mqtt"] for node in facts]
        self.api = [node["ports"]["api"] for node in facts]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._up.terminate()
        self._up.wait(60)
        self._log.close()
        self._directory.cleanup()

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """While it goes on a node that ends is not started again."""
        self._up.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._up.send_signal(signal.SIGCONT)

    def get(self, number: int, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.api[number], timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())


def processor(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / TICK


def memory(pid: int) -> int:
    """Bytes of it that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


@contextlib.contextmanager
def sampled(what: Callable[[], float], seconds: float = 0.02) -> Iterator[list[float]]:
    """Values of ``what`` while it goes on."""
    values, over = [what()], threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            values.append(what())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield values
    finally:
        over.set()
        thread.join()
        values.append(what())


@contextlib.contextmanager
def background(
    *command: str, core: int | None = None, quiet: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A program meanwhile."""
    pinned = ["taskset", "-c", str(core), *command] if core is not None else list(command)
    process = subprocess.Popen(
        pinned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL if quiet else None
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


# -- cost


def look(api: int) -> None:
    """A console and a scraper: follow the event stream, and ask for the rest now and then."""

    def follow() -> None:
        stream = http.client.HTTPConnection("127.0.0.1", api, timeout=60)
        stream.request("GET", "/api/v1/live")
        answer = stream.getresponse()
        while answer.read1(65_536):
            pass

    threading.Thread(target=follow, daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", api, timeout=60)
    due = dict.fromkeys(LOOKS, 0.0)
    while True:
        now = time.monotonic()
        for path, period in LOOKS.items():
            if now >= due[path]:
                due[path] = now + period
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    sys.exit(f"{path}: {answer.status}")
        time.sleep(0.05)


@contextlib.contextmanager
def watched(api: int) -> Iterator[None]:
    """A console, a scraper, and ``gossamer top``."""
    here = [sys.executable, __file__, "look", str(api)]
    top = [sys.executable, "-m", "gossamer.cli", "top", "--api", f"http://127.0.0.1:{api}"]
    with background(*here, core=1), background(*top, core=1):
        # What starting them costs is not the node's.
        time.sleep(3)
        yield


def cost(rounds: int, seconds: float) -> None:
    print(
        f"two nodes, full load on one; {rounds} rounds of {seconds:g} s; "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    kinds: dict[str, Callable[[int], Any]] = {"nobody": lambda _: contextlib.nullcontext(), "all": watched}
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    idle: dict[str, float] = {}
    with Cluster(2) as cluster:
        pid, other = cluster.pids
        os.sched_setaffinity(pid, {0})
        os.sched_setaffinity(other, {1})
        for kind, looking in kinds.items():
            with looking(cluster.api[0]):
                before = processor(pid)
                time.sleep(20)
                idle[kind] = (processor(pid) - before) / 20
        port = cluster.mqtt[0]
        for _ in range(rounds):
            for kind, looking in kinds.items():
                with looking(cluster.api[0]):
                    before = processor(pid)
                    found = load.run(core=1, pub_ports=port, sub_ports=port, seconds=seconds, pids=pid)
                    rates[kind].append(float(str(found["received"])) / (processor(pid) - before))
    alone, seen = (statistics.median(rates[kind]) for kind in kinds)
    spread = statistics.pstdev(rates["nobody"]) / alone
    print(
        f"messages a processor second, median: nobody looks {alone:,.0f} (spread {spread:.1%}), "
        f"all look {seen:,.0f}"
    )
    print(f"cost {1 - seen / alone:.2%} (bar 3 %)")
    print(f"of a core, without load: nobody {idle['nobody']:.2%}, all {idle['all']:.2%}")


# -- list


def make_sessions(port: int, prefix: str, count: int) -> None:
    """Persistent sessions whose clients are gone."""
    for number in range(count):
        name = f"{prefix}{number:06}".encode()
        body = b"\x00\x04MQTT\x04\x00\x00\x3c" + struct.pack("!H", len(name)) + name
        with socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(bytes([0x10, len(body)]) + body)
            assert one.recv(4)[3:] == b"\x00"
            one.sendall(b"\xe0\x00")
            # Who closes first keeps the port for a minute; that is the node, with a reset to it.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.recv(1)


def stream_all(api: int) -> tuple[int, int, Any, float]:
    """Lines, bytes, who is missing, and seconds to the first line."""
    connection = http.client.HTTPConnection("127.0.0.1", api, timeout=120)
    with contextlib.closing(connection):
        begin = time.perf_counter()
        connection.request("GET", "/api/v1/clients?format=ndjson")
        answer = connection.getresponse()
        first, lines, size, tail = 0.0, 0, 0, b""
        while part := answer.read1(1 << 20):
            first = first or time.perf_counter() - begin
            lines += part.count(b"\n")
            size += len(part)
            tail = (tail + part)[-10_000:]
        last = json.loads(tail.strip().rpartition(b"\n")[2])
        return lines - 1, size, last["missing"], first


def latency(cluster: Cluster, seconds: float, rate: int) -> dict[str, Any]:
    """Messages from the first node to the second at a rate; what they take."""
    return load.run(
        pub_ports=cluster.mqtt[0], sub_ports=cluster.mqtt[1], seconds=seconds, rate=rate, pubs=4, subs=4
    )


def list_clients(clients: int, repeat: int, rate: int) -> None:
    room = min(clients // 3, os.sysconf("SC_OPEN_MAX") - SPARE)
    load.build("hold")
    print(f"{clients:,} clients on three nodes; load average {os.getloadavg()[0]:.1f}", flush=True)
    with Cluster(3) as cluster, contextlib.ExitStack() as stack:
        begin = time.perf_counter()
        for port in cluster.mqtt:
            hold = [str(load.build("hold")), "mode=idle", f"port={port}", f"count={room}", f"room={room}"]
            stack.enter_context(background(*hold, "hold=3600", "at_once=200", quiet=True))
        makers = []
        for number, port in enumerate(cluster.mqtt):
            count = clients // 3 - room + (clients % 3 if number == 0 else 0)
            here = [sys.executable, __file__, "sessions", str(port), f"lasting-{number}-", str(count)]
            makers.append(subprocess.Popen(here))
        assert not any(maker.wait() for maker in makers)
        while sum(cluster.get(number, "/api/v1/pulse")["sessions"] for number in range(3)) < clients:
            time.sleep(0.5)
        there = [cluster.get(number, "/api/v1/pulse") for number in range(3)]
        print(
            f"{sum(one['connections'] for one in there):,} connected, "
            f"{sum(one['sessions'] for one in there):,} sessions "
            f"after {time.perf_counter() - begin:.0f} s; {rate:,} messages a second meanwhile"
        )
        quiet = latency(cluster, 4, rate)
        print(f"publishing, nobody lists: p50 {quiet['p50_us']} us, p99 {quiet['p99_us']} us")
        pid = cluster.pids[0]
        for number in range(repeat):
            found: dict[str, Any] = {}
            publishing = threading.Thread(target=lambda out=found: out.update(latency(cluster, 6, rate)))
            publishing.start()
            time.sleep(0.7)
            used = [processor(one) for one in cluster.pids]
            start, begin = memory(pid), time.perf_counter()
            with sampled(lambda: memory(pid)) as sizes:
                lines, size, missing, first = stream_all(cluster.api[0])
                took = time.perf_counter() - begin
            used = [processor(one) - before for one, before in zip(cluster.pids, used, strict=True)]
            publishing.join()
            print(
                f"list {number + 1}: {lines:,} clients, {size / 1e6:.1f} MB in {took:.2f} s (first after "
                f"{first * 1000:.0f} ms), missing {missing}; memory {start / 1e6:.0f} MB + "
                f"{(max(sizes) - start) / 1e6:.1f}; processor s {', '.join(f'{one:.2f}' for one in used)}; "
                f"publishing: lost {found['lost']}, p50 {found['p50_us']} us, p99 {found['p99_us']} us",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("cost")
    one.add_argument("--rounds", type=int, default=7)
    one.add_argument("--seconds", type=float, default=3.0)
    one = commands.add_parser("list")
    one.add_argument("--clients", type=int, default=100_000)
    one.add_argument("--repeat", type=int, default=3)
    one.add_argument("--rate", type=int, default=4000, help="messages a second meanwhile")
    one = commands.add_parser("look")
    one.add_argument("api", type=int)
    one = commands.add_parser("sessions")
    one.add_argument("port", type=int)
    one.add_argument("prefix")
    one.add_argument("count", type=int)
    options = parser.parse_args()
    match options.command:
        case "cost":
            cost(options.rounds, options.seconds)
        case "list":
            list_clients(options.clients, options.repeat, options.rate)
        case "look":
            look(options.api)
        case "sessions":
            make_sessions(options.port, options.prefix, options.count)


if __name__ == "__main__":
    main()
