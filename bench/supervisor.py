"""Processes side by side: a bare asyncio.Queue hand-off, gossamer, Pykka, Thespian, Erlang where installed.

Run ``python bench/supervisor.py [--quick]``. Rates are operations a second of processor time, the best of
seven short runs taken in turns; ratios are medians over the turns. Thespian is measured on its fastest base
(one process, ``simpleSystemBase``) and on its fastest one that uses processes (``multiprocTCPBase``).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import structlog

from gossamer.supervisor import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Port,
    Reply,
    Runtime,
    Supervisor,
    call,
    receive,
    self_pid,
    send,
    tune_collector,
)

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


async def handle(request: int) -> int:
    return request + 1


async def queue_call(number: int) -> float:
    inbox: asyncio.Queue[tuple[int, asyncio.Queue[int]]] = asyncio.Queue()

    async def server() -> None:
        while True:
            request, answers = await inbox.get()
            answers.put_nowait(await handle(request))

    task = asyncio.create_task(server())
    answers: asyncio.Queue[int] = asyncio.Queue()
    start = time.process_time()
    for request in range(number):
        inbox.put_nowait((request, answers))
        await answers.get()
    took = time.process_time() - start
    task.cancel()
    return number / took


async def queue_send(number: int) -> float:
    inbox: asyncio.Queue[int] = asyncio.Queue()

    async def consumer() -> None:
        for _ in range(number):
            await inbox.get()

    task = asyncio.create_task(consumer())
    start = time.process_time()
    for message in range(number):
        inbox.put_nowait(message)
        if not message % 100:
            await asyncio.sleep(0)
    await task
    return number / (time.process_time() - start)


class Server(GenServer):
    async def handle_call(self, request: int, caller: object) -> Reply:
        return Reply(request + 1)


async def gossamer_call(number: int) -> float:
    runtime = Runtime()
    server = await runtime.start(Server)

    async def client() -> float:
        start = time.process_time()
        for request in range(number):
            await call(server, request)
        return number / (time.process_time() - start)

    rate = await runtime.run(client)
    await runtime.stop()
    return rate


async def gossamer_send(number: int) -> float:
    runtime = Runtime()

    async def consumer() -> None:
        for _ in range(number):
            await receive()

    pid = runtime.spawn(consumer)
    done = runtime.join(pid)

    async def producer() -> None:
        for message in range(number):
            send(pid, message)
            if not message % 100:
                await asyncio.sleep(0)

    start = time.process_time()
    await runtime.run(producer)
    await done
    return number / (time.process_time() - start)


def pykka_call(number: int) -> float:
    import pykka

    class Actor(pykka.ThreadingActor):
        def on_receive(self, message: int) -> int:
            return message + 1

    actor = Actor.start()
    start = time.process_time()
    for request in range(number):
        actor.ask(request)
    rate = number / (time.process_time() - start)
    actor.stop()
    return rate


def pykka_send(number: int) -> float:
    import pykka

    class Actor(pykka.ThreadingActor):
        def on_receive(self, message: int) -> int:
            return message

    actor = Actor.start()
    start = time.process_time()
    for message in range(number):
        actor.tell(message)
    actor.ask(0)
    rate = number / (time.process_time() - start)
    actor.stop()
    return rate


THESPIAN = """
import sys, time, logging
from thespian.actors import Actor, ActorSystem
class Adder(Actor):
    def receiveMessage(self, message, sender):
        if isinstance(message, int):
            self.send(sender, message + 1)
if __name__ == '__main__':
    base, number = sys.argv[1], int(sys.argv[2])
    options = {'Admin Port': 19007} if 'TCP' in base else None
    system = ActorSystem(base, options, logDefs={'version': 1}, transientUnique=False)
    try:
        actor = system.createActor(Adder)
        system.ask(actor, 1, 5)
        start = time.perf_counter()
        for request in range(number):
            system.ask(actor, request, 5)
        print(number / (time.perf_counter() - start))
    finally:
        system.shutdown()
"""


def thespian_call(base: str, number: int) -> float:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "thespian_bench.py"
        script.write_text(THESPIAN)
        run = subprocess.run(
            [sys.executable, str(script), base, str(number)], capture_output=True, text=True, timeout=60
        )
    return float(run.stdout.split()[-1]) if run.stdout.strip() else float("nan")


ERLANG = """
-module(hop).
-export([main/1]).
loop() -> receive {P, N} -> P ! N + 1, loop() end.
run(_, 0) -> ok;
run(S, N) -> S ! {self(), N}, receive _ -> run(S, N - 1) end.
main(N) ->
    S = spawn(fun loop/0),
    {T, _} = timer:tc(fun() -> run(S, N) end),
    io:format("~p~n", [N * 1000000 / T]), halt().
"""


def erlang_call(number: int) -> float:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "hop.erl").write_text(ERLANG)
        # Compiled: what -eval evaluates is interpreted.
        run = subprocess.run(
            ["erl", "-noshell", "-eval", f'{{ok, _}} = compile:file("hop"), hop:main({number}).'],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=directory,
        )
    return float(run.stdout.split()[-1]) if run.stdout.strip() else float("nan")


class Connection(Port):
    __slots__ = ()


def resident() -> int:
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * resource.getpagesize()


async def children(number: int, *, ports: bool) -> tuple[float, float, float]:
    """Seconds to start, seconds to stop, bytes each."""
    runtime = Runtime()
    sup = await runtime.start(DynamicSupervisor)
    worker = ChildSpec("worker", GenServer.start_link, restart="temporary")

    async def connection():
        return Connection().open(link_to=self_pid())

    spec = ChildSpec("port", connection, restart="temporary") if ports else worker

    async def start() -> None:
        for _ in range(number):
            await DynamicSupervisor.start_child(sup, spec)

    gc.collect()
    before, began = resident(), time.perf_counter()
    await runtime.run(start)
    started = time.perf_counter()
    gc.collect()
    each = (resident() - before) / number
    stopping = time.perf_counter()
    await runtime.stop()
    return started - began, time.perf_counter() - stopping, each


async def storm(seconds: float) -> tuple[float, int]:
    """The loop's worst lag while a child dies and restarts without pause, and how often it did."""
    runtime = Runtime()

    async def doomed() -> None:
        raise ValueError("again")

    async def start():
        return runtime.spawn(doomed, link_to=self_pid())

    sup = await runtime.start(Supervisor, [ChildSpec("doomed", start)], intensity=10**9)
    loop, worst, end = asyncio.get_running_loop(), 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        due = loop.time() + 0.01
        await asyncio.sleep(0.01)
        worst = max(worst, loop.time() - due)
    restarts = runtime.table[sup].behaviour.restarts
    await runtime.stop()
    return worst, restarts


Measure = Callable[[int], float | Awaitable[float]]


def best(*measures: tuple[Measure, int]) -> list[tuple[float, float]]:
    """Of each the best of seven runs, and the median of its ratios to the first of the same round.

    They run in turns, so that a busy moment of the machine hits all alike.
    """

    def once(measure: Measure, number: int) -> float:
        value = measure(number)
        return value if isinstance(value, float) else asyncio.run(value)  # type: ignore[arg-type]

    rounds = [[once(measure, number) for measure, number in measures] for _ in range(7)]
    return [
        (max(rates), statistics.median(rate / first for rate, (first, *_) in zip(rates, rounds, strict=True)))
        for rates in zip(*rounds, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    tune_collector()
    scale = 1 if parser.parse_args().quick else 10
    calls = best((queue_call, 2000 * scale), (gossamer_call, 2000 * scale), (pykka_call, 300 * scale))
    sends = best((queue_send, 10000 * scale), (gossamer_send, 10000 * scale), (pykka_send, 1000 * scale))
    print(f"{'':32}{'call/s':>12}{'of queue':>10}{'send/s':>12}{'of queue':>10}")
    names = ("asyncio.Queue hand-off", "gossamer", "pykka (threads)")
    for name, (rate, ratio), (sent, sent_ratio) in zip(names, calls, sends, strict=True):
        print(f"{name:32}{rate:>12,.0f}{ratio:>10.2f}{sent:>12,.0f}{sent_ratio:>10.2f}")
    for base in ("simpleSystemBase", "multiprocTCPBase"):
        rate = thespian_call(base, 100 * scale)
        print(f"{f'thespian {base}':32}{rate:>12,.0f}{rate / calls[0][0]:>10.4f}")
    print(f"gossamer over thespian's processes: {calls[1][0] / rate:.0f} x")
    if shutil.which("erl"):
        rate = erlang_call(100000 * scale)
        print(f"{'Erlang (send and receive)':32}{rate:>12,.0f}{rate / calls[0][0]:>10.2f}")
    print(f"\n{'children':32}{'start s':>12}{'stop s':>10}{'bytes each':>12}")
    took: dict[tuple[str, int], float] = {}
    sizes = (1000, 10000) if scale == 1 else (1000, 10000, 100000)
    for number in sizes:
        for ports in (False, True):
            kind = "ports" if ports else "GenServers"
            # Small numbers are over in no time, so the median of several; the large ones run long enough.
            runs = [asyncio.run(children(number, ports=ports)) for _ in range(7 if number == 1000 else 1)]
            start, stop, each = sorted(runs, key=lambda run: run[0] + run[1])[len(runs) // 2]
            took[kind, number] = start + stop
            print(f"{f'{number} {kind}':32}{start:>12.3f}{stop:>10.3f}{each:>12,.0f}")
    for kind in ("GenServers", "ports"):
        times = took[kind, sizes[-1]] / took[kind, sizes[0]]
        print(f"{sizes[-1] // sizes[0]} times the {kind} take {times:.0f} times the time")
    lag, restarts = asyncio.run(storm(0.3 * scale))
    print(f"\nrestart storm: {restarts} restarts, worst lag of the loop {lag * 1000:.1f} ms")


if __name__ == "__main__":
    main()
