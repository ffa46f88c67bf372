"""What recording costs, side by side: off, one message of a hundred, all; on the same node, run by run.

    python bench/audit.py                      every pattern, what it must reach, and a disc that stalls
    python bench/audit.py --rows pair0,cross1 --repeat 20 --seconds 1
    python bench/audit.py --rows held0,held1   a given rate, in wall time, everything recorded

Rules: 1. A node is started once, a load is started once for each row and goes on, and the node is told over
HTTP what to record: so nothing but recording differs between slices that are neighbours, not even how many
messages a read brings, which settles anew with every load. The order turns from round to round.  2. Figures
are medians. ``of 1 core`` is messages for a second of the node's own processor time, which other programs on
the machine disturb least; what recording costs is the median of what it costs against ``off`` of the same
round, and beside it stands where the true median lies nine times of ten. The writer is another process,
pinned to the load's core.  3. A run of all messages that dropped events is no run of all messages: drops are
shown.  4. Bytes are those of finished files.  5. A rate is held when as much arrived as was offered, nothing
was lost and no event dropped.

``bench/audit_path.py`` tells what the publish path alone pays, also on a busy machine.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import load
import psutil

PATTERNS: dict[str, dict[str, object]] = {
    "pair0": {"pattern": "pair", "qos": 0, "pubs": 10, "subs": 10, "lag": 50},
    "pair1": {"pattern": "pair", "qos": 1, "pubs": 10, "subs": 10, "window": 20},
    "fanout0": {"pattern": "fanout", "qos": 0, "pubs": 1, "subs": 50, "lag": 50},
    "fanin1": {"pattern": "fanin", "qos": 1, "pubs": 50, "subs": 1, "window": 20, "lag": 20},
    "wildcard0": {"pattern": "wildcard", "qos": 0, "pubs": 10, "subs": 4, "lag": 50},
    "cross0": {"pattern": "pair", "qos": 0, "pubs": 10, "subs": 10, "lag": 50},
    "cross1": {"pattern": "pair", "qos": 1, "pubs": 10, "subs": 10, "window": 20},
}
HELD: dict[str, dict[str, object]] = {
    "held0": {"pattern": "pair", "qos": 0, "pubs": 10, "subs": 10, "rate": 150_000},
    "held1": {"pattern": "pair", "qos": 1, "pubs": 10, "subs": 10, "window": 1000, "rate": 80_000},
}
MODES = {"off": None, "1%": 0.01, "all": 1.0}
COST = 0.03
ALL_ROUNDS = 4
"""Of a row; what all costs is no narrow matter."""
SETTLE = 0.4
"""Seconds after a change before a slice begins."""
EVENT_BYTES = 40
TURN_MS = 5.0


class Cluster:
    """Nodes that may record, pinned to one core, and asked over HTTP."""

    def __init__(self, count: int, core: int, writer_core: int) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="audit-bench-")
        self.writer_core = writer_core
        environ = {
            **os.environ,
            "GOSSAMER_MQTT__AUTH__ALLOW_ANONYMOUS": "true",
            "GOSSAMER_AUDIT__ROTATE_AFTER": "1s",
            "GOSSAMER_LOG__LEVEL": "error",
        }
        ports = ("--mqtt-port", "0", "--api-port", "0", "--gossip-port", "0", "--distribution-port", "0")
        command = ["taskset", "-c", str(core), sys.executable, "-m", "gossamer.cli", "up", "--json"]
        command += ["--nodes", str(count), "--data-dir", self._directory.name, *ports]
        self._up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ)
        assert self._up.stdout is not None
        self.nodes = json.loads(self._up.stdout.readline())["nodes"]
        self.processes = [psutil.Process(node["pid"]) for node in self.nodes]

    def ask(self, number: int, body: dict[str, object] | None = None) -> dict[str, object]:
        return self._get(number, "audit", body)

    def _get(self, number: int, what: str, body: dict[str, object] | None = None) -> dict[str, object]:
        url = f"http://127.0.0.1:{self.nodes[number]['ports']['api']}/api/v1/{what}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def record(self, share: float | None) -> None:
        """Have all nodes record so much."""
        for number in range(len(self.nodes)):
            self.ask(number, {"enable": False} if share is None else {"enable": True, "sample": share})
            for writer in self.writers(number):
                writer.cpu_affinity([self.writer_core])

    def writers(self, number: int) -> list[psutil.Process]:
        children = self.processes[number].children(recursive=True)
        return [child for child in children if "gossamer.audit.writer" in child.cmdline()]

    def totals(self) -> dict[str, float]:
        told = [self.ask(number) for number in range(len(self.nodes))]
        return {key: sum(float(one[key]) for one in told) for key in ("recorded", "dropped", "bytes")}

    def slice(self, seconds: float) -> dict[str, float]:
        """What all nodes do in so many seconds of a load that goes on."""
        before, spent, sent, began = self.totals(), self.spent(), self.sent(), time.monotonic()
        time.sleep(seconds)
        sent, took = self.sent() - sent, time.monotonic() - began
        spent, after = self.spent() - spent, self.totals()
        return {
            "rate": sent / took,
            "of_core": sent / spent,
            "recorded": after["recorded"] - before["recorded"],
            "dropped": after["dropped"] - before["dropped"],
        }

    def sent(self) -> int:
        return sum(int(str(self._get(number, "pulse")["sent"])) for number in range(len(self.nodes)))

    def spent(self) -> float:
        """Seconds of processor time; what psutil tells is in hundredths."""
        tasks = [Path(f"/proc/{process.pid}/task") for process in self.processes]
        times = [int(file.read_text().split()[0]) for task in tasks for file in task.glob("*/schedstat")]
        return sum(times) / 1e9

    def stop(self) -> None:
        self._up.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._up.wait(60)
        self._directory.cleanup()


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def measure(
    cluster: Cluster, row: str, options: argparse.Namespace, seconds: float | None = None
) -> dict[str, float]:
    seconds = seconds or options.seconds
    before, spent = cluster.totals(), sum(map(cpu, cluster.processes))
    ports = [node["ports"]["mqtt"] for node in cluster.nodes]
    found = load.run(
        core=options.load_core,
        **{**PATTERNS, **HELD}[row],
        pub_ports=ports[0],
        sub_ports=ports[-1],
        seconds=seconds,
        payload=options.payload,
    )
    spent = sum(map(cpu, cluster.processes)) - spent
    after = cluster.totals()
    return {
        "rate": float(str(found["per_second"])),
        "of_core": int(str(found["received"])) / spent,
        "busy": spent / seconds,
        "p99_ms": float(str(found["p99_us"])) / 1000,
        "lost": float(str(found["lost"])),
        "recorded": after["recorded"] - before["recorded"],
        "dropped": after["dropped"] - before["dropped"],
    }


def patterns(options: argparse.Namespace) -> None:
    print(
        f"{'row':<10} {'recorded':<8} {'rate /s':>10} {'of 1 core':>11} {'cost':>7} {'between':>16}"
        f" {'events':>9} {'dropped':>8}"
    )
    for count in (1, 2):
        rows = [row for row in options.rows if row.startswith("cross") == (count == 2)]
        if not rows:
            continue
        cluster = Cluster(count, options.core, options.load_core)
        try:
            for row in rows:
                (hold if row in HELD else compare)(cluster, row, options)
            cluster.record(None)
            time.sleep(2)
            totals = cluster.totals()
            each = totals["bytes"] / max(1.0, totals["recorded"])
            print(f"on disc {each:.1f} bytes an event, must be < {EVENT_BYTES}: {good(each < EVENT_BYTES)}")
            if count == 1:
                stall(cluster, options)
        finally:
            cluster.stop()


def compare(cluster: Cluster, row: str, options: argparse.Namespace) -> None:
    """One load that goes on, and slices of it: off, 1 %, 1 %, off, …, and all now and then."""
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    pairs: dict[str, list[float]] = {mode: [] for mode in MODES}
    ports = [node["ports"]["mqtt"] for node in cluster.nodes]
    cluster.record(None)
    with load.going(
        core=options.load_core,
        **PATTERNS[row],
        pub_ports=ports[0],
        sub_ports=ports[-1],
        payload=options.payload,
    ) as going:
        time.sleep(1.5)
        for number in range(options.repeat):
            modes = ["off", "1%", *(["all"] if number < ALL_ROUNDS else [])]
            seen: dict[str, dict[str, float]] = {}
            for mode in modes if number % 2 else reversed(modes):
                cluster.record(MODES[mode])
                time.sleep(SETTLE)
                seen[mode] = cluster.slice(options.seconds)
                found[mode].append(seen[mode])
            for mode in modes:
                pairs[mode].append(1 - seen[mode]["of_core"] / seen["off"]["of_core"])
        if going.poll() is not None:
            sys.exit(f"bench: the load of {row} ended early, with {going.returncode}")

    def median(mode: str, key: str) -> float:
        return statistics.median(one[key] for one in found[mode])

    for mode in MODES:
        low, high = spread(pairs[mode])
        print(
            f"{row:<10} {mode:<8} {median(mode, 'rate'):>10,.0f} {median(mode, 'of_core'):>11,.0f}"
            f" {statistics.median(pairs[mode]):>7.1%} {f'{low:.1%} … {high:.1%}':>16}"
            f" {median(mode, 'recorded'):>9,.0f} {sum(one['dropped'] for one in found[mode]):>8,.0f}",
            flush=True,
        )
    sampled = statistics.median(pairs["1%"])
    low, high = spread(pairs["1%"])
    sure = "" if high <= COST or low > COST else " (not beyond doubt: more --repeat)"
    print(
        f"{row:<10} 1% costs {sampled:.1%}, must be <= {COST:.0%}: {good(sampled <= COST)}{sure}", flush=True
    )


def spread(values: list[float]) -> tuple[float, float]:
    """Between which two of ``values`` their true median lies, nine times of ten (fewer than five: all)."""
    ordered = sorted(values)
    # The tail of the sign test: how likely so few of all lie on one side of it.
    skip, tail = 0, 1
    while (tail := tail + math.comb(len(ordered), skip + 1)) <= 0.05 * 2 ** len(ordered):
        skip += 1
    return ordered[skip], ordered[-1 - skip]


def hold(cluster: Cluster, row: str, options: argparse.Namespace) -> None:
    """Record everything of a load that is offered at one rate, for as long as it takes to be a fact."""
    cluster.record(1.0)
    time.sleep(1)
    found = measure(cluster, row, options, seconds=options.held_seconds)
    offered = float(str(HELD[row]["rate"]))
    held = found["rate"] >= 0.995 * offered and not found["lost"] and not found["dropped"]
    print(
        f"{row:<10} {found['rate']:,.0f}/s of {offered:,.0f}/s offered for {options.held_seconds:g} s,"
        f" {found['lost']:,.0f} messages lost, {found['recorded']:,.0f} events recorded,"
        f" {found['dropped']:,.0f} dropped, p99 {found['p99_ms']:.1f} ms, node busy {found['busy']:.0%}:"
        f" {good(held)}",
        flush=True,
    )


def stall(cluster: Cluster, options: argparse.Namespace) -> None:
    """The writer is stopped under load: as if the disc took nothing."""
    cluster.record(1.0)
    cluster.ask(0, {"buffer": 1000})
    [writer] = cluster.writers(0)
    before = cluster.processes[0].memory_info().rss
    lost, gaps = (int(str(cluster.ask(0)[key])) for key in ("dropped", "gaps"))
    writer.suspend()
    found: list[dict[str, float]] = []
    try:
        # The socket between the two has room for some seconds of it; then so many again without any.
        full = 0
        while len(found) < 60 and full < 4:
            found.append(measure(cluster, "fanin1", options))
            stalled = cluster.ask(0)
            full += int(str(stalled["dropped"])) > lost
        grown = (cluster.processes[0].memory_info().rss - before) / 2**20
    finally:
        writer.resume()
    time.sleep(3)
    after = cluster.ask(0)
    dropped, noted = int(str(stalled["dropped"])) - lost, int(str(after["gaps"])) - gaps
    bounded = int(str(stalled["buffered"])) <= int(str(stalled["buffer"])) + 1
    print(
        f"disc stalls: {statistics.median(one['rate'] for one in found):,.0f} msg/s go on,"
        f" {stalled['buffered']:,} rows wait of {stalled['buffer']:,}, {dropped:,} dropped,"
        f" {grown:+.0f} MiB; then {noted} gap(s) recorded:"
        f" {good(bounded and dropped > 0 and noted > 0)}"
    )


def turn() -> None:
    """The longest the recorder has the loop: one batch taken from the buffer and encoded."""
    from gossamer.audit import KINDS, EventBuffer
    from gossamer.audit.journal import Batch, frame
    from gossamer.audit.recorder import _WEIGHT

    def longest(note) -> float:
        buffer = EventBuffer(limit=100_000, wall=time.time)
        for number in range(20_000):
            note(buffer, number)
        worst = 0.0
        while len(buffer):
            began = time.process_time()
            frame(Batch(0, buffer.take(_WEIGHT)))
            worst = max(worst, time.process_time() - began)
        return worst * 1000

    published = longest(
        lambda buffer, n: buffer.note(
            KINDS["published"], "node1@127.0.0.1", 1, n, 20, "bench/topic/7", 1, False, 2000, None, "client-7"
        )
    )
    names = tuple(f"client-{n}" for n in range(1000))
    wide = longest(
        lambda buffer, n: buffer.note_many(
            *(KINDS["delivered"], 1000, "node1@127.0.0.1", 1, n, 20, names, 0, False, None, None, None)
        )
    )
    worst = max(published, wide)
    print(
        f"loop: a batch takes {published:.1f} ms, of fan-outs to 1,000 clients {wide:.1f} ms,"
        f" must be <= {TURN_MS:g} ms: {good(worst <= TURN_MS)}"
    )


def good(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


def main() -> None:
    def names(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    known = [*PATTERNS, *HELD]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=names, default=known, help=f"of {', '.join(known)}")
    parser.add_argument("--held-seconds", type=float, default=12.0)
    parser.add_argument("--repeat", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--core", type=int, default=0, help="of the nodes")
    parser.add_argument("--load-core", type=int, default=1, help="of the load and the writers")
    options = parser.parse_args()
    if unknown := [row for row in options.rows if row not in known]:
        parser.error(f"--rows: unknown {', '.join(unknown)}; expected of {', '.join(known)}")
    load.build()
    print(
        f"nodes on core {options.core}, load and writers on {options.load_core}, payload {options.payload} B,"
        f" slices of {options.seconds:g} s, median of {options.repeat}; load average {os.getloadavg()[0]:.1f}"
    )
    turn()
    patterns(options)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
