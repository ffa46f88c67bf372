"""Brokers side by side in one run: each on the same core, the load generator on another, one table.

    python bench/brokers.py                        every broker that can run here, every pattern
    python bench/brokers.py --only pair0,fanout0 --peers mosquitto,gossamer --rounds 5

Rules: 1. Brokers take turns within a round, so that a noisy minute hits all of them; the table shows medians
over rounds.  2. One broker is running at a time.  3. Whatever is lost, doubled or reordered is shown beside
the rate: a rate with losses is not a rate.  4. ``tiny`` is no broker (``tiny_broker.py`` says what it leaves
out); it shows how much of the machine is left.

A pattern that crosses nodes publishes at the first node of a broker and subscribes at its second; both nodes
share the one core (``cpu`` is that of the first). The peer there is two mosquittos with a bridge, which
forwards everything, wanted or not.
"""

import argparse
import contextlib
import json
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import load

HERE = Path(__file__).parent
PYTHON = sys.executable

PATTERNS: dict[str, dict[str, object]] = {
    "pair0": {"pattern": "pair", "qos": 0, "pubs": 10, "subs": 10, "lag": 50},
    "pair1": {"pattern": "pair", "qos": 1, "pubs": 10, "subs": 10, "window": 20},
    "fanout0": {"pattern": "fanout", "qos": 0, "pubs": 1, "subs": 50, "lag": 50},
    "fanin1": {"pattern": "fanin", "qos": 1, "pubs": 50, "subs": 1, "window": 20, "lag": 20},
    "wildcard0": {"pattern": "wildcard", "qos": 0, "pubs": 10, "subs": 4, "lag": 50},
    "latency0": {"pattern": "pair", "qos": 0, "pubs": 10, "subs": 10, "rate": 2000},
    "latency1": {"pattern": "pair", "qos": 1, "pubs": 10, "subs": 10, "rate": 2000, "window": 1000},
}
CROSS = {
    "cross0": {"pattern": "pair", "qos": 0, "pubs": 10, "subs": 10, "lag": 50},
    "cross1": {"pattern": "pair", "qos": 1, "pubs": 10, "subs": 10, "window": 20},
    "crosslat0": {"pattern": "pair", "qos": 0, "pubs": 10, "subs": 10, "rate": 2000},
    "crosslat1": {"pattern": "pair", "qos": 1, "pubs": 10, "subs": 10, "rate": 2000, "window": 1000},
}
NOT_FOR = {"tiny": {"wildcard0"}}


@dataclass
class Running:
    """A broker under test: its processes and the MQTT port of each node."""

    processes: list[subprocess.Popen[bytes]]
    ports: list[int]
    directory: tempfile.TemporaryDirectory[str] = field(repr=False)

    @property
    def pid(self) -> int:
        return self.processes[0].pid

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.directory.cleanup()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def launch(
    core: int, command: list[str], directory: tempfile.TemporaryDirectory[str]
) -> subprocess.Popen[bytes]:
    """Start a broker's process on its core; what it says goes to a file beside its data."""
    path = Path(directory.name) / f"{len(list(Path(directory.name).iterdir()))}.log"
    with path.open("wb") as log:
        return subprocess.Popen(["taskset", "-c", str(core), *command], stdout=log, stderr=subprocess.STDOUT)


def await_port(port: int, process: subprocess.Popen[bytes], directory: str, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    said = "\n".join(
        path.read_text(errors="replace")[-2000:] for path in sorted(Path(directory).glob("*.log"))
    )
    process.kill()
    raise RuntimeError(f"no broker on port {port} within {patience:g} s; it said:\n{said}")


def mosquitto(core: int, nodes: int = 1) -> Running:
    """Debian's. It has no cluster; two of them are joined by its bridge, from the first to the second."""
    ports = free_ports(nodes)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    running = Running([], ports, directory)
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    for index, port in reversed(list(enumerate(ports))):
        config = Path(directory.name) / f"mosquitto{index}.conf"
        # Its queue bound would make it drop what the others deliver.
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            "max_queued_messages 0",
            "log_type error",
        ]
        if index + 1 < nodes:
            lines += [
                "max_inflight_messages 0",
                "connection next",
                f"address 127.0.0.1:{ports[index + 1]}",
                "topic # out 1",
            ]
        config.write_text("\n".join(lines) + "\n")
        process = launch(core, [program, "-c", str(config)], directory)
        running.processes.insert(0, process)
        await_port(port, process, directory.name)
    if nodes > 1:
        time.sleep(1)
    return running


def tiny(core: int) -> Running:
    (port,) = free_ports(1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    process = launch(core, [PYTHON, str(HERE / "tiny_broker.py"), str(port)], directory)
    await_port(port, process, directory.name)
    return Running([process], [port], directory)


def single(core: int) -> Running:
    """The MQTT side alone: no cluster, no supervision tree of a node around it."""
    (port,) = free_ports(1)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    process = launch(core, [PYTHON, str(HERE / "mqtt_single.py"), "--port", str(port)], directory)
    await_port(port, process, directory.name)
    return Running([process], [port], directory)


def gossamer(core: int, nodes: int = 1) -> Running:
    """Whole nodes, started as a user starts them; they share the core."""
    ports = free_ports(4 * nodes)
    directory = tempfile.TemporaryDirectory(prefix="bench-")
    seeds = [f"127.0.0.1:{ports[0]}"]
    running = Running([], ports[3::4], directory)
    try:
        for index in range(nodes):
            gossip, links, http, mqtt = ports[4 * index : 4 * index + 4]
            config = {
                "node": {
                    "name": f"bench{index + 1}@127.0.0.1",
                    "cookie": "bench-only-cookie",
                    "data_dir": str(Path(directory.name) / f"node{index + 1}"),
                },
                "cluster": {
                    "env": "bench",
                    "host": "127.0.0.1",
                    "port": gossip,
                    "seed_endpoints": seeds,
                    "discovery": {"strategy": "static"},
                },
                "distribution": {"host": "127.0.0.1", "port": links},
                "mqtt": {
                    "server": {
                        "enable": True,
                        "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": mqtt}],
                    },
                    "auth": {"allow_anonymous": True},
                },
                "api": {"enable": True, "host": "127.0.0.1", "port": http},
            }
            path = Path(directory.name) / f"node{index + 1}.yaml"
            path.write_text(json.dumps(config))  # YAML, all the same
            process = launch(core, [PYTHON, "-m", "gossamer.cli", "start", "-c", str(path)], directory)
            running.processes.append(process)
        for process, port in zip(running.processes, running.ports, strict=True):
            await_port(port, process, directory.name)
        if nodes > 1:
            time.sleep(3)  # they find each other
    except BaseException:
        running.stop()
        raise
    return running


PEERS = {
    "mosquitto": (mosquitto, 1),
    "gossamer": (gossamer, 1),
    "single": (single, 1),
    "tiny": (tiny, 1),
    "mosquitto x2": (lambda core: mosquitto(core, nodes=2), 2),
    "gossamer x2": (lambda core: gossamer(core, nodes=2), 2),
}


def measure(
    peer: str, options: argparse.Namespace, results: dict[tuple[str, str], list[dict[str, object]]]
) -> None:
    start, nodes = PEERS[peer]
    patterns = CROSS if nodes > 1 else PATTERNS
    wanted = [
        name
        for name in patterns
        if (not options.only or name in options.only) and name not in NOT_FOR.get(peer, ())
    ]
    if not wanted:
        return
    running = start(options.broker_core)
    try:
        for name in wanted:
            try:
                outcome = load.run(
                    core=options.load_core,
                    pub_ports=running.ports[0],
                    sub_ports=running.ports[-1],
                    seconds=options.seconds,
                    payload=options.payload,
                    pid=running.pid,
                    **patterns[name],
                )
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{peer} {name}: {error}", file=sys.stderr)
                continue
            results.setdefault((name, peer), []).append(outcome)
    finally:
        running.stop()


def median(rounds: list[dict[str, object]], key: str) -> float:
    return statistics.median(float(one[key]) for one in rounds)  # type: ignore[arg-type]


def table(results: dict[tuple[str, str], list[dict[str, object]]], peers: list[str]) -> str:
    """One line for each pattern and broker; ratios are to mosquitto in the same run."""
    head = (
        f"{'pattern':<10} {'broker':<12} {'msg/s':>10} {'ratio':>6} {'p50 us':>8} {'p99 us':>8} {'ratio':>6}"
    )
    lines = [f"{head} {'lost':>7} {'doubled':>7} {'reord.':>7} {'cpu':>5} {'load':>5}"]
    for name in [*PATTERNS, *CROSS]:
        reference = results.get((name, "mosquitto x2" if name in CROSS else "mosquitto"))
        for peer in peers:
            rounds = results.get((name, peer))
            if not rounds:
                continue
            rate, p50, p99 = (median(rounds, key) for key in ("per_second", "p50_us", "p99_us"))
            times = after = ""
            if reference:
                times = f"{rate / median(reference, 'per_second'):.2f}"
                after = f"{p99 / max(1.0, median(reference, 'p99_us')):.2f}"
            faults = [sum(int(one[key]) for one in rounds) for key in ("lost", "duplicated", "reordered")]  # type: ignore[call-overload]
            lines.append(
                f"{name:<10} {peer:<12} {rate:>10,.0f} {times:>6} {p50:>8,.0f} {p99:>8,.0f} {after:>6}"
                f" {faults[0]:>7} {faults[1]:>7} {faults[2]:>7}"
                f" {median(rounds, 'broker_cpu'):>5.2f} {median(rounds, 'load_cpu'):>5.2f}"
            )
    return "\n".join(lines)


def main() -> None:
    def names(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=names, default=list(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--only", type=names, default=[], help=f"of {', '.join([*PATTERNS, *CROSS])}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every round's figures here too")
    options = parser.parse_args()
    if unknown := [name for name in options.peers if name not in PEERS]:
        parser.error(f"unknown peers {', '.join(unknown)}; expected of {', '.join(PEERS)}")
    if unknown := [name for name in options.only if name not in PATTERNS and name not in CROSS]:
        parser.error(f"unknown patterns {', '.join(unknown)}; expected of {', '.join([*PATTERNS, *CROSS])}")
    load.build()
    results: dict[tuple[str, str], list[dict[str, object]]] = {}
    peers = list(options.peers)
    for _ in range(options.rounds):
        for peer in list(peers):
            try:
                measure(peer, options, results)
            except (RuntimeError, OSError) as error:
                print(f"{peer} left out: {error}", file=sys.stderr)
                peers.remove(peer)
    print(
        f"broker on core {options.broker_core}, load on {options.load_core}, payload {options.payload} B,"
        f" {options.seconds:g} s, median of {options.rounds} rounds; ratios are to mosquitto in this run"
    )
    print(table(results, options.peers))
    if options.json:
        options.json.write_text(
            json.dumps([{"pattern": n, "peer": p, "rounds": r} for (n, p), r in results.items()])
        )


if __name__ == "__main__":
    main()
