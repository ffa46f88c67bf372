"""Membership: how fast is a cluster known to itself, how fast is a death seen, what does rest cost.

    python bench/gossip.py                     30 real servers on loopback, beside swim-protocol
    python bench/gossip.py --members 60 --kills 10 --no-baseline
    python bench/gossip.py --simulate          the state machine alone: loss, stalls, growth
    python bench/gossip.py --simulate --crowds 1000 --sizes ""     an hour of a thousand: half an hour

Rules: 1. All members of one system run in one process on one loop, so rates are per member and CPU is shared
out.  2. A kill closes the sockets of a member and ends its tasks, without a word to anybody, as ``kill -9``
does; the time is until the *last* survivor has noticed.  3. ``linked`` adds what the data links of a real
node report: every survivor's connection resets.  4. swim-protocol is as published, with its own defaults; for
the join it gets one seed as ours does, for the kill the full list of peers, or it would not get there.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).parents[1]))

from gossamer.clock import SystemClock
from gossamer.gossip import (
    GossipServer,
    Join,
    Keyring,
    LinkEvidence,
    MemberDown,
    MemberMetadata,
    MembershipView,
    MemberSuspect,
    Status,
    cluster_key,
)
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime

Row = tuple[str, str, str]


def ports(count: int) -> list[int]:
    """Free ports, UDP and TCP."""
    held, found = [], []
    while len(found) < count:
        tcp = socket.socket()
        tcp.bind(("127.0.0.1", 0))
        held.append(tcp)
        found.append(tcp.getsockname()[1])
    for each in held:
        each.close()
    return found


async def until(condition: Callable[[], bool], limit: float) -> float | None:
    """Seconds until it holds; None when it does not within ``limit``."""
    start = time.perf_counter()
    while not condition():
        if time.perf_counter() - start > limit:
            return None
        await asyncio.sleep(0.01)
    return time.perf_counter() - start


def show(seconds: list[float | None]) -> str:
    done = [value for value in seconds if value is not None]
    if not done:
        return "never"
    missed = "" if len(done) == len(seconds) else f", {len(seconds) - len(done)} never"
    if len(done) == 1:
        return f"{done[0]:.2f} s{missed}"
    return f"median {statistics.median(done):.2f} s, worst {max(done):.2f} s{missed}"


class Ours:
    """One gossamer member."""

    def __init__(self, number: int, port: int) -> None:
        self.name = f"node{number}"
        self.port = port
        self.view = MembershipView()
        self.runtime = Runtime(node=self.name)

    async def start(self) -> None:
        await self.runtime.start(
            GossipServer,
            name="gossip",
            metadata=MemberMetadata(self.name, creation=1, start_time=time.time(), ports={"mqtt": 1883}),
            bind=("127.0.0.1", self.port),
            keyring=Keyring([cluster_key("bench")], env="bench"),
            network=SystemNetwork(),
            clock=SystemClock(),
            view=self.view,
        )

    async def enter(self, seed: Ours) -> None:
        await self.start()
        if seed is not self:
            await self.runtime.call("gossip", Join((("127.0.0.1", seed.port),)), timeout=10)

    def online(self) -> int:
        return sum(member.status is Status.ONLINE for member in self.view.members())

    def down(self, name: str) -> bool:
        member = self.view.get(name)
        return member is not None and member.status is Status.OFFLINE

    def kill(self) -> None:
        pid = self.runtime.whereis("gossip")
        if pid is not None:
            self.runtime.exit(pid, "kill")


async def ours(members: int, kills: int, rest: float) -> list[Row]:
    rows: list[Row] = []
    nodes = [Ours(number, port) for number, port in enumerate(ports(members))]
    start = time.perf_counter()
    await nodes[0].start()
    await asyncio.gather(*(node.enter(nodes[0]) for node in nodes[1:]))
    started = time.perf_counter()
    if await until(lambda: all(node.online() == members for node in nodes), 60) is not None:
        now = time.perf_counter()
        rows.append(
            ("cold join, all at once", f"{now - start:.2f} s", f"{now - started:.2f} s after the last start")
        )
    else:
        rows.append(("cold join, all at once", "not in 60 s", ""))
    await asyncio.sleep(3)

    def traffic() -> int:
        return sum(node.view.counters["bytes_out"] for node in nodes)

    before, cpu, began = traffic(), time.process_time(), time.perf_counter()
    await asyncio.sleep(rest)
    seconds = time.perf_counter() - began
    rate = (traffic() - before) / seconds / members
    load = (time.process_time() - cpu) / seconds / members * 100
    rows.append(("at rest, per member", f"{rate:.0f} B/s out", f"{load:.2f} % of a core"))
    order = random.Random(1).sample(nodes[1:], 2 * kills)
    for title, linked in (("kill, probes only", False), ("kill, linked", True)):
        times: list[float | None] = []
        for _ in range(kills):
            victim = order.pop()
            nodes.remove(victim)
            victim.kill()
            if linked:
                for node in nodes:
                    node.runtime.cast("gossip", LinkEvidence(victim.name, "reset"))
            times.append(await until(lambda name=victim.name: all(node.down(name) for node in nodes), 30))
            await asyncio.sleep(2)
        rows.append((title, show(times), f"{kills} kills"))
    suspected = sum(node.view.counters["member_alive"] for node in nodes)
    rows.append(("suspicions that were wrong", str(suspected), ""))
    for node in nodes:
        await node.runtime.stop()
    return rows


async def theirs(members: int, kills: int, limit: float) -> list[Row]:
    from swimprotocol.members import Members
    from swimprotocol.status import Status as TheirStatus
    from swimprotocol.udp import UdpTransport
    from swimprotocol.udp.config import UdpConfig
    from swimprotocol.worker import Worker

    async def enter(name: str, peers: list[str]) -> tuple[Members, AsyncExitStack]:
        config = UdpConfig(secret="bench", local_name=name, peers=peers, local_metadata={"a": b"b"})
        known = Members(config)
        worker = Worker(config, known)
        stack = AsyncExitStack()
        await stack.enter_async_context(UdpTransport(config, worker))
        await stack.enter_async_context(worker)
        return known, stack

    def complete(tables: list[Members], expected: int) -> bool:
        return all(
            sum(bool(m.status & TheirStatus.ONLINE) for m in [t.local, *t.non_local]) == expected
            for t in tables
        )

    # Its tasks complain when they are stopped; that is not what is measured here.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    rows: list[Row] = []
    names = [f"127.0.0.1:{port}" for port in ports(members)]
    pairs = [await enter(name, [names[0] if name != names[0] else names[1]]) for name in names]
    took = await until(lambda: complete([known for known, _ in pairs], members), limit)
    seen = [sum(bool(m.status & TheirStatus.ONLINE) for m in [k.local, *k.non_local]) for k, _ in pairs]
    rows.append(
        (
            "cold join, all at once",
            f"{took:.2f} s" if took is not None else f"not in {limit:.0f} s",
            f"members known: {min(seen)} to {max(seen)}",
        )
    )
    for _, stack in pairs:
        await stack.aclose()
    names = [f"127.0.0.1:{port}" for port in ports(members)]
    nodes = {name: await enter(name, [other for other in names if other != name]) for name in names}
    if await until(lambda: complete([known for known, _ in nodes.values()], members), 60) is None:
        rows.append(("kill, probes only", "not measured", "the full list of peers did not come up in 60 s"))
    else:
        times: list[float | None] = []
        for victim in names[-kills:]:
            _, stack = nodes.pop(victim)
            await stack.aclose()
            tables = [known for known, _ in nodes.values()]
            times.append(
                await until(
                    lambda victim=victim, tables=tables: all(
                        t.get(victim).status == TheirStatus.OFFLINE for t in tables
                    ),
                    60,
                )
            )
        rows.append(("kill, probes only", show(times), f"{kills} kills"))
    for _, stack in nodes.values():
        await stack.aclose()
    return rows


def simulate(hours: float, crowds: list[int], sizes: list[int]) -> Iterator[Row]:
    from tests.gossip.swarm import Swarm

    def grown(size: int, **options: object) -> Swarm:
        swarm = Swarm(**options)  # type: ignore[arg-type]
        hosts = [swarm.start(f"node{number}") for number in range(size)]
        for host in hosts[1:]:
            swarm.join(host, hosts[0])
        return swarm

    def hold(title: str, size: int, *, seed: int, loss: float, stall: bool) -> Row:
        swarm = grown(size, seed=seed, loss=loss)
        assert swarm.run(120, until=swarm.complete, step=0.25), f"no full view; seed {seed}"
        swarm.run(10)
        for host in swarm.live():
            host.events.clear()
        stalled = swarm.hosts["node7"]
        for _ in range(int(hours * 3600)):
            if stall:
                swarm.freeze(stalled, 0.3)
            swarm.run(1)
        wrong, downs = (sum(len(h.saw(kind)) for h in swarm.live()) for kind in (MemberSuspect, MemberDown))
        return (f"{size} members, {hours:g} h, {title}", f"{wrong} suspicions, {downs} verdicts", "")

    yield hold("5 % loss", 30, seed=1, loss=0.05, stall=False)
    yield hold("one stalls 0.3 s each second", 30, seed=2, loss=0.0, stall=True)
    for size in crowds:
        yield hold("5 % loss, and one stalls so", size, seed=3, loss=0.05, stall=True)
    for size in sizes:
        joins, kills, powers, rates = [], [], [], []
        for seed in range(3 if size <= 300 else 1):
            swarm = grown(size, seed=seed)
            swarm.run(60, until=swarm.complete, step=0.25)
            joins.append(swarm.now - 1000)
            swarm.run(15)
            before = sum(host.bytes for host in swarm.live())
            swarm.run(10)
            rates.append((sum(host.bytes for host in swarm.live()) - before) / 10 / size)
            for power, times in ((False, kills), (True, powers)):
                start = swarm.now
                swarm.kill(swarm.rng.choice(swarm.live()), power=power)
                swarm.run(60, until=swarm.complete, step=0.05 if size <= 300 else 0.25)
                times.append(swarm.now - start)
                swarm.run(5)
        yield (
            f"{size} members: join, kill, power lost, rest",
            " ".join(f"{statistics.mean(values):.2f} s" for values in (joins, kills, powers)),
            f"{statistics.mean(rates):.0f} B/s a member",
        )


def table(title: str, rows: Iterable[Row]) -> None:
    print(f"\n{title}")
    for name, value, remark in rows:
        print(f"  {name:<56} {value:<38} {remark}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--members", type=int, default=30)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rest", type=float, default=15.0, help="seconds to measure at rest")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds the baseline gets to join")
    parser.add_argument("--no-baseline", action="store_true")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--crowds", default="", help="members that are held for the hours as well")
    parser.add_argument("--sizes", default="10,30,100,300")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if options.simulate:
        crowds, sizes = (
            [int(size) for size in text.split(",") if size] for text in (options.crowds, options.sizes)
        )
        table("gossamer, simulated", simulate(options.hours, crowds, sizes))
        return
    table(
        f"gossamer, {options.members} members on loopback",
        asyncio.run(ours(options.members, options.kills, options.rest)),
    )
    if not options.no_baseline:
        rows = asyncio.run(theirs(options.members, min(3, options.kills), options.limit))
        table(f"swim-protocol 0.6.3, {options.members} members on loopback", rows)


if __name__ == "__main__":
    main()
