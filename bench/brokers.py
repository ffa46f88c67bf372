"""Brokers side by side in one run: each on the same core, the load generator on another, one table.

    python bench/brokers.py                        every broker that is installed, every row
    python bench/brokers.py --rows pair0,held --peers mosquitto,gossamer --repeat 9 --seconds 1
    AEDES_DIR=/where/npm/installed/it python bench/brokers.py --json figures.json

Rules: 1. For each row the brokers take turns, ``--repeat`` times, so that a noisy minute hits all of them;
the table shows medians.  2. While one is measured the others are idle.  3. Whatever is lost, doubled or
reordered is shown beside the rate: a rate with losses is not a rate.  4. ``tiny`` is no broker
(``tiny_broker.py`` says what it leaves out); it shows how much of the machine is left, as ``single`` shows
what a node is besides MQTT.  5. ``cpu`` is what the broker had of its core: where it is well below 1 in a
closed loop the machine was busy with other things, and ``of 1 core`` is what the rate would have been without
them. That column compares better than the rate on a machine that is shared; verdicts use it where
``--shared`` is given. ``cpu us`` is its processor time for each delivery or connection.

A row that crosses nodes publishes at the first node of a broker and subscribes at its second; both nodes
share the one core. ``mosquitto x2`` are two with a bridge, which forwards everything, wanted or not.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import load
from brokers_peers import PEERS, Running, installed
from brokers_rows import ROWS, SELDOM, Bar, Row

Rounds = list[dict[str, float]]
Results = dict[tuple[str, str], Rounds]
SUBJECTS = {1: "gossamer", 2: "gossamer x2"}


def measure(row: Row, running: Running, options: argparse.Namespace) -> dict[str, float]:
    """One run of a row against one broker."""
    pids = ",".join(map(str, running.pids()))
    settings: dict[str, object] = {"seconds": options.seconds, "payload": options.payload, **row.options}
    if "room" in settings:
        # The generator has a few files besides, and so has the broker.
        settings["room"] = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1000
    if row.generator == "hold":
        outcome = load.hold(core=options.load_core, port=running.ports[0], pids=pids, **settings)
    elif row.generator == "tls":
        ca = Path(running.directory.name) / "ca.pem"
        outcome = load.tls(core=options.load_core, port=running.tls, ca=ca, pids=pids, **row.options)
    else:
        ports = {"pub_ports": running.ports[0], "sub_ports": running.ports[-1]}
        outcome = load.run(core=options.load_core, pids=pids, **ports, **settings)
    figures = {key: float(value) for key, value in outcome.items() if isinstance(value, int | float)}  # type: ignore[arg-type]
    rate = figures[row.rate]
    cpu = figures["subscribe_cpu" if row.rate == "subscribed_per_second" else "broker_cpu"]
    figures["cpu"] = cpu
    # An open loop is told its rate; what share of the core that takes says nothing of what it could do.
    figures["cpu_us"] = cpu * 1e6 / rate if rate else 0.0
    figures["whole_core"] = rate / cpu if cpu > 0.05 and "rate" not in row.options else rate
    return figures


class Stage:
    """The brokers that run; those that were started for other rows wait idle."""

    def __init__(self, core: int) -> None:
        self._core = core
        self._running: dict[str, Running] = {}
        self.broken: set[str] = set()

    def run(self, name: str, row: Row, options: argparse.Namespace) -> dict[str, float] | None:
        """One run, or None where the broker could not do it; it is not asked again if it does not start."""
        running = None if row.fresh else self._running.get(name)
        try:
            if running is None:
                running = PEERS[name].start(self._core)
                if row.fresh:
                    # What a start leaves to do is done by then.
                    time.sleep(1)
                else:
                    self._running[name] = running
        except (RuntimeError, OSError) as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            self.broken.add(name)
            return None
        try:
            return measure(row, running, options)
        except Exception as error:  # noqa: BLE001 - what one broker cannot do is no reason to stop the others
            print(f"{name}, {row.title}: {error}", file=sys.stderr)
            return None
        finally:
            if row.fresh:
                running.stop()

    def clear(self) -> None:
        for running in self._running.values():
            running.stop()
        self._running.clear()


def median(rounds: Rounds, key: str) -> float:
    return statistics.median(one.get(key, 0.0) for one in rounds)


def verdict(name: str, bar: Bar, results: Results, shared: bool) -> str:
    """Whether a bar and its aim are reached, with the figures."""
    key = bar.figure
    if shared and key == ROWS[name].rate:
        key = "whole_core"
    mine = median(results[name, SUBJECTS[ROWS[name].nodes]], key)

    def held(factor: float, of: str | None) -> tuple[bool, float, str] | None:
        if not of:
            against, said = factor, ""
        else:
            rounds = results.get((name, of))
            if rounds:
                other, note = median(rounds, key), of
            elif of in bar.published:
                other, note = bar.published[of], f"{of}, as published"
            else:
                return None
            against, said = factor * other, f" = {factor:g} x {note}"
        return (mine <= against if bar.low else mine >= against), against, said

    unit = bar.figure.removesuffix("_us").replace("_", " ") + (" us" if bar.figure.endswith("_us") else "")
    words = [f"{unit} {mine:,.0f}"]
    for what, outcome in (
        ("must", held(bar.must, bar.of)),
        ("aim", held(bar.aim, bar.of if bar.aim_of is None else bar.aim_of)),
    ):
        if outcome is None:
            words.append(f"{what} not known")
            continue
        good, against, said = outcome
        sign = "<=" if bar.low else ">="
        words.append(f"{what} {sign} {against:,.0f}{said}: {'reached' if good else 'NOT reached'}")
    return "; ".join(words)


HEAD = (
    f"{'row':<10} {'broker':<15} {'rate /s':>10} {'ratio':>6} {'of 1 core':>10} {'ratio':>6} {'cpu us':>7}"
    f" {'p50 us':>8} {'p99 us':>8} {'ratio':>6} {'B each':>7} {'lost':>6} {'dbl':>4} {'reord':>5} {'cpu':>5}"
)


def lines_of(name: str, results: Results, peers: list[str]) -> list[str]:
    """One line for each broker; ratios are to mosquitto in the same run."""
    row = ROWS[name]
    reference = results.get((name, row.reference))
    lines = []
    for peer in peers:
        rounds = results.get((name, peer))
        if not rounds:
            continue

        def ratio(key: str, rounds: Rounds = rounds) -> str:
            other = median(reference, key) if reference else 0
            return f"{median(rounds, key) / other:.2f}" if other else ""

        faults = [int(sum(one.get(key, 0) for one in rounds)) for key in ("lost", "duplicated", "reordered")]
        each = median(rounds, "bytes_each")
        lines.append(
            f"{name:<10} {peer:<15} {median(rounds, row.rate):>10,.0f} {ratio(row.rate):>6}"
            f" {median(rounds, 'whole_core'):>10,.0f} {ratio('whole_core'):>6}"
            f" {median(rounds, 'cpu_us'):>7,.2f}"
            f" {median(rounds, 'p50_us'):>8,.0f} {median(rounds, 'p99_us'):>8,.0f} {ratio('p99_us'):>6}"
            f" {f'{each:,.0f}' if each else '':>7} {faults[0]:>6} {faults[1]:>4} {faults[2]:>5}"
            f" {median(rounds, 'cpu'):>5.2f}"
        )
    return lines


def main() -> None:
    def names(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    usual = [name for name in ROWS if name not in SELDOM]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=names, default=installed(), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rows", type=names, default=usual, help=f"of {', '.join(ROWS)}")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    parser.add_argument("--shared", action="store_true", help="verdicts on rates for a whole core")
    parser.add_argument("--json", type=Path, help="write every run's figures here too")
    options = parser.parse_args()
    for what, given, known in (("peers", options.peers, PEERS), ("rows", options.rows, ROWS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"--{what}: unknown {', '.join(unknown)}; expected of {', '.join(known)}")
    load.build("load")
    load.build("hold")
    print(
        f"brokers on core {options.broker_core}, load on {options.load_core}, payload {options.payload} B,"
        f" {options.seconds:g} s, median of {options.repeat}; ratios are to mosquitto in this run;"
        f" load average {os.getloadavg()[0]:.1f}"
    )
    print(HEAD, flush=True)
    results: Results = {}
    stage = Stage(options.broker_core)
    with contextlib.ExitStack() as stack:
        stack.callback(stage.clear)
        for nodes in (1, 2):
            for name in (name for name in options.rows if ROWS[name].nodes == nodes):
                row = ROWS[name]
                peers = [
                    peer
                    for peer in options.peers
                    if PEERS[peer].nodes == nodes
                    and peer not in row.without
                    and (peer in (row.only or PEERS))
                ]
                for _ in range(options.repeat):
                    for peer in peers:
                        if peer in stage.broken:
                            continue
                        outcome = stage.run(peer, row, options)
                        if outcome is not None:
                            results.setdefault((name, peer), []).append(outcome)
                print("\n".join(lines_of(name, results, peers)), flush=True)
            stage.clear()
    print(f"\nload average {os.getloadavg()[0]:.1f}; gossamer against what it must reach, and its aims:")
    for name in options.rows:
        if results.get((name, SUBJECTS[ROWS[name].nodes])):
            for bar in ROWS[name].bars:
                print(f"{name:<10} {verdict(name, bar, results, options.shared)}")
    if options.json:
        options.json.write_text(
            json.dumps([{"row": name, "peer": peer, "runs": runs} for (name, peer), runs in results.items()])
        )


if __name__ == "__main__":
    main()
