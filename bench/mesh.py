"""How long nodes that start together take to link with all others, plain and with certificates.

    python bench/mesh.py [--sizes 10 30] [--rows tcp,tcp-tls,grpc,grpc-tls] [--runs 3] [--processes 2]

Link hosts (a node's distribution, and nothing else of it) listen on loopback, shared out among
``--processes`` processes; each has a certificate of its own from one authority. Once all listen, all are
told of all others in the same moment. ``up``: every host has every other in ``nodes()``, at both ends.
``all lanes``: besides, every purpose is open in both directions, six connections a pair. Both in seconds by
the clock, medians of the runs. ``CPU``: processor time of all processes until all lanes are open, in all
and for each of those connections, so that what else the machine does is left out. ``dials``: connections
begun, for each that was needed; more than 1 are attempts that failed or ran out of time.

A run that takes longer than ``--limit`` is shown as such.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog
import uvloop

from gossamer.config import LinkTlsConfig
from gossamer.distribution import Distribution, GrpcTransport, LinkCertificates, StreamTransport
from gossamer.launch.authority import Authority, local_names
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime, Supervisor, tune_collector

HOST = "127.0.0.1"
LANES = 3
POLL = 0.01


@dataclass(frozen=True, slots=True)
class Part:
    """Task of one process: the hosts ``first``, ``first + step``, … of ``size``."""

    row: str
    size: int
    first: int
    step: int
    directory: str


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds until up and until all lanes were open, processor time, and connections begun."""

    up: float
    lanes: float
    cpu: float
    dials: int


def name_of(number: int) -> str:
    return f"n{number}@{HOST}"


class Hosts:
    """The hosts of one process."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._numbers = range(part.first, part.size, part.step)
        self._nodes: list[Distribution] = []
        self._dials = 0

    def _transport(self, number: int) -> StreamTransport | GrpcTransport:
        kind, _, tls = self._part.row.partition("-")
        certificates = None
        if tls:
            directory = Path(self._part.directory)
            cert_file, key_file = directory / f"n{number}.pem", directory / f"n{number}.key"
            files = LinkTlsConfig(cert_file=cert_file, key_file=key_file, ca_file=directory / "ca.pem")
            certificates = LinkCertificates(files, name_of(number))
        if kind == "tcp":
            transport: StreamTransport | GrpcTransport
            transport = StreamTransport(SystemNetwork(), certificates=certificates)
        else:
            transport = GrpcTransport(certificates=certificates)
        connect = transport.connect

        async def counted(*arguments, **named):
            self._dials += 1
            await connect(*arguments, **named)

        transport.connect = counted
        return transport

    async def start(self) -> dict[int, int]:
        """Make the hosts listen; return the port of each."""
        for number in self._numbers:
            runtime = Runtime(name_of(number), 1)
            node = Distribution(
                runtime,
                self._transport(number),
                cookie="bench",
                address=(HOST, 0),
                rng=random.Random(number),
            )
            await runtime.start(Supervisor, [node.child_spec()])
            self._nodes.append(node)
        return {number: node.address[1] for number, node in zip(self._numbers, self._nodes, strict=True)}

    async def link(self, ports: dict[int, int]) -> Took:
        """Tell each host of all others; return once everything is open."""
        others = len(ports) - 1
        begun, cpu = time.perf_counter(), time.process_time()
        for node in self._nodes:
            for number, port in ports.items():
                if name_of(number) != node.runtime.node:
                    node.connect(name_of(number), 1, (HOST, port))
        await self._until(lambda node: len(node.nodes()) == others)
        up = time.perf_counter() - begun
        await self._until(self._open)
        return Took(up, time.perf_counter() - begun, time.process_time() - cpu, self._dials)

    async def _until(self, holds: Callable[[Distribution], bool]) -> None:
        while not all(map(holds, self._nodes)):  # noqa: ASYNC110 - an event for each would be what is measured
            await asyncio.sleep(POLL)

    @staticmethod
    def _open(node: Distribution) -> bool:
        return all(len(peer.outbound) == len(peer.inbound) == LANES for peer in node.peers.values())


async def worker(part: Part) -> None:
    """Speak with the parent by lines: ports out, all ports in, what it took out; the end of input ends it."""
    loop = asyncio.get_running_loop()
    hosts = Hosts(part)
    print(json.dumps(await hosts.start()), flush=True)
    line = await loop.run_in_executor(None, sys.stdin.readline)
    took = await hosts.link({int(number): port for number, port in json.loads(line).items()})
    print(json.dumps(asdict(took)), flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    # Closing a thousand connections in order is not what is measured.
    os._exit(0)


async def run(row: str, size: int, processes: int, directory: str, limit: float) -> Took | None:
    """One run; None if it is not over within ``limit``."""
    children = []
    for first in range(processes):
        part = json.dumps(asdict(Part(row, size, first, processes, directory)))
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, __file__, "--part", part)
        children.append(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
    try:
        ports: dict[str, int] = {}
        for child in children:
            ports |= json.loads(await child.stdout.readline())
        for child in children:
            child.stdin.write(json.dumps(ports).encode() + b"\n")
        async with asyncio.timeout(limit):
            parts = [Took(**json.loads(await child.stdout.readline())) for child in children]
    except TimeoutError:
        return None
    finally:
        for child in children:
            child.kill()
            await child.wait()
    return Took(
        max(part.up for part in parts),
        max(part.lanes for part in parts),
        sum(part.cpu for part in parts),
        sum(part.dials for part in parts),
    )


async def main(options: argparse.Namespace, directory: str) -> None:
    authority = Authority(Path(directory))
    for number in range(max(options.sizes)):
        authority.issue(f"n{number}", local_names(HOST, name_of(number)))
    print(f"{options.processes} processes, {os.cpu_count()} cores, {options.runs} runs")
    columns = f"{'hosts':>6}{'up':>9}{'all lanes':>11}{'CPU':>9}{'a connection':>14}{'dials':>7}{'load':>7}"
    print(f"{'':10}{columns}")
    for size in options.sizes:
        for row in options.rows.split(","):
            await measure(row, size, options, directory)


async def measure(row: str, size: int, options: argparse.Namespace, directory: str) -> None:
    """Print the medians of one row."""
    runs = [await run(row, size, options.processes, directory, options.limit) for _ in range(options.runs)]
    done = [took for took in runs if took is not None]
    load = f"{os.getloadavg()[0]:7.1f}"
    if late := len(runs) - len(done):
        print(f"{row:10}{size:6}  {late} of {len(runs)} not over in {options.limit:g} s {load}", flush=True)
        return
    needed = size * (size - 1) * LANES
    up, lanes, cpu, dials = (
        statistics.median(getattr(took, field) for took in done) for field in ("up", "lanes", "cpu", "dials")
    )
    seconds = f"{up:8.2f}s{lanes:10.2f}s{cpu:8.2f}s{1e3 * cpu / needed:11.2f} ms"
    print(f"{row:10}{size:6}{seconds}{dials / needed:7.2f}{load}", flush=True)


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 30])
    parser.add_argument("--rows", default="tcp,tcp-tls,grpc,grpc-tls")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a run")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    # Of a mesh both ends of every connection may be in one process.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if chosen.part:
            # As a node does.
            tune_collector()
            runner.run(worker(Part(**json.loads(chosen.part))))
        else:
            with tempfile.TemporaryDirectory() as made:
                runner.run(main(chosen, made))
