"""What a Thespian actor costs in memory and in time to start, under our supervisors.

    $ python bench/thespian_cost.py
    $ python bench/thespian_cost.py --actors 30

Resident memory counts pages that the forked processes share once for each; what an actor adds to the machine
is its own part ("unique"), and its share of what is shared ("proportional"). Needs the extra ``thespian``.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import time
from pathlib import Path

import psutil
import structlog
from thespian.actors import Actor

from gossamer.supervisor import Runtime, call
from gossamer.supervisor.thespian import ThespianActor, ThespianSystem


class Idle(Actor):
    """Answers with its process."""

    def receiveMessage(self, message, sender):  # noqa: N802 - Thespian's name
        self.send(sender, os.getpid())


async def measure(number: int) -> None:
    await ThespianSystem.start_link(name="thespian", path=[Path(__file__).parent])
    begun = time.perf_counter()
    actors = [await ThespianActor.start("thespian", Idle) for _ in range(number)]
    took = (time.perf_counter() - begun) / number
    own = [psutil.Process(await call(actor, "pid", timeout=60)) for actor in actors]
    sizes = [process.memory_full_info() for process in own]
    host = own[0].parents()[0]
    while host.parent() is not None and host.parent().pid != psutil.Process().pid:
        host = host.parent()
    fixed = [p for p in (host, *host.children(recursive=True)) if p not in own]
    mib = 1 << 20
    print(f"{number} actors, each a process of its own; start {took * 1e3:.1f} ms each")
    for name in ("rss", "pss", "uss"):
        word = {"rss": "resident", "pss": "proportional", "uss": "unique"}[name]
        each = sum(getattr(size, name) for size in sizes) / number / mib
        base = sum(getattr(p.memory_full_info(), name) for p in fixed) / mib
        print(f"{word:<13} {each:6.1f} MiB an actor, {base:6.1f} MiB for the {len(fixed)} of the system")


async def program(number: int) -> None:
    runtime = Runtime()
    try:
        await runtime.run(measure, number)
    finally:
        await runtime.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actors", type=int, default=10, metavar="N")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(program(parser.parse_args().actors))


if __name__ == "__main__":
    main()
