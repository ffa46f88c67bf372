"""A node joins while clients publish: ``python bench/tables_join.py [--routes 1000000] [--rate 1000]``.

A node holds the routes (their subscribers are objects in its process, not clients), the load generator
publishes through it all the while, open loop, and a second node joins. Printed are the seconds until the
joiner has every row, in its table and in its index, and what became of the messages meanwhile and before, by
the generator's own clock. ``--turns`` has both nodes say which turns of their loops were long.

On two cores the joiner loads on one while the first node and the generator share the other, which is what
``--pin`` asks for; without it they take what they get.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import load
import structlog

from gossamer.config import Config
from gossamer.node import Node
from gossamer.routes import SubscriptionOptions

ROUTES = "routes"
COOKIE = "benchmark-cookie-0123456789"


class Nobody:
    """A subscriber that is never delivered to."""

    client_id = "nobody"

    def deliver(self, message: Any, delivery: Any) -> None:
        raise AssertionError("no message of this benchmark has such a topic")


def config(number: int, directory: Path) -> Config:
    base = 21000 + 20 * number
    home = str(directory / f"n{number}")
    return Config.model_validate(
        {
            "node": {"name": f"n{number}@127.0.0.1", "cookie": COOKIE, "data_dir": home},
            "cluster": {
                "env": "bench",
                "host": "127.0.0.1",
                "port": base,
                "seed_endpoints": ["127.0.0.1:21020"],
            },
            "distribution": {"host": "127.0.0.1", "port": base + 1},
            "mqtt": {
                "server": {"listeners": [{"type": "tcp", "host": "127.0.0.1", "port": base + 2}]},
                "auth": {"allow_anonymous": True},
            },
            "api": {"enable": False},
        }
    )


class Turns:
    """How much of the processor the loop takes between two looks a millisecond apart: what whoever waits for
    it has to bear, however busy the machine is with other things."""

    def __init__(self) -> None:
        self.long: list[float] = []

    async def watch(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            if now - before > 0.005:
                self.long.append(now - before)
            before = now


async def child(number: int, directory: Path, routes: int) -> None:
    """One node. The first fills its table, the second says when it has all of it."""
    node = Node.open(config(number, directory))
    turns = Turns()
    watching = asyncio.create_task(turns.watch())
    begun = time.perf_counter()
    await node.start()
    say("started", seconds=time.perf_counter() - begun)
    if number == 1:
        nobody = Nobody()
        options = SubscriptionOptions()
        for start in range(0, routes, 500):
            for i in range(start, min(start + 500, routes)):
                node.router.subscribe(f"site/{i % 1000}/dev/{i // 1000}/metric/{i}", nobody, options)
            await asyncio.sleep(0.001)
        say("filled", seconds=time.perf_counter() - begun)
        turns.long.clear()
    else:
        table: Any = node.store.table(ROUTES)
        while len(table.rows_of("n1@127.0.0.1")) < routes:  # noqa: ASYNC110 - a table that fills
            await asyncio.sleep(0.02)
        say("loaded", seconds=time.perf_counter() - begun, at=time.time())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    watching.cancel()
    worst = sorted(turns.long, reverse=True)[:8]
    say("turns", above_5_ms=len(turns.long), worst_ms=[round(1e3 * spent, 1) for spent in worst])
    sys.stdout.flush()
    os._exit(0)


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event} | fields), flush=True)


class Child:
    def __init__(self, number: int, directory: Path, routes: int, core: int | None) -> None:
        command = [sys.executable, __file__, "--child", str(number), "--dir", str(directory)]
        command += ["--routes", str(routes)]
        if core is not None:
            command = ["taskset", "-c", str(core), *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_for(self, event: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told["event"] == event:
                return told
        raise RuntimeError(f"a node ended before it was {event}")

    def end(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        told = self.wait_for("turns")
        self.process.wait()
        return told


def measure(rate: int, seconds: float, core: int | None) -> dict[str, Any]:
    return load.run(
        core=core,
        pattern="pair",
        qos=1,
        pubs=10,
        subs=10,
        rate=rate,
        window=1000,
        pub_ports=21022,
        sub_ports=21022,
        seconds=seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routes", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.5)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--child", type=int)
    parser.add_argument("--dir", type=Path)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    if options.child:
        asyncio.run(child(options.child, options.dir, options.routes))
        return
    cores = (0, 1) if options.pin else (None, None)
    load.build()
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(1) as pool:
        children = [Child(1, Path(directory), options.routes, cores[0])]
        try:
            filled = children[0].wait_for("filled")
            print(f"{options.routes:,} routes in {filled['seconds']:.1f} s")
            show("before", measure(options.rate, 5.0, cores[0]))
            loading = pool.submit(measure, options.rate, options.seconds, cores[0])
            time.sleep(1.0)
            children.append(Child(2, Path(directory), options.routes, cores[1]))
            started = children[1].wait_for("started")
            print(f"the joiner runs after {started['seconds']:.1f} s")
            loaded = children[1].wait_for("loaded")
            print(f"the joiner has all routes after {loaded['seconds']:.1f} s")
            show("meanwhile", loading.result())
            if options.turns:
                for name, one in zip(("holder", "joiner"), children, strict=True):
                    print(name, one.end())
        finally:
            for one in children:
                one.process.kill()
                one.process.wait()


def show(when: str, result: dict[str, Any]) -> None:
    kept = ("delivered", "lost", "duplicated", "p50_us", "p99_us", "max_us")
    print(f"{when:10}", {key: result[key] for key in kept if key in result} or result)


if __name__ == "__main__":
    main()
