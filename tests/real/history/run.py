"""One run: a cluster, some workloads, one fault, one seed; then time to settle, and a verdict each.

::

    start ─ connect, subscribe ─ steps of the fault ─ everything lifted and started ─ whole ─ settle ─ judge
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from msgspec import convert

from . import previous
from .cluster import Cluster
from .faults import FAULTS, ROLES, Step
from .history import Event, History, write
from .judge import Violation, judge
from .story import Story
from .workloads import WORKLOADS
from .world import World

AFTER_FAULT = 3.0
"""Seconds for which clients go on as before once everything is lifted."""
SETTLE_AT_LEAST = 6.0
SETTLE_AT_MOST = 30.0
WILLS_AT_MOST = 75.0
"""Seconds, where a will is missed: those of a node that was out of reach may be kept back for a minute."""
QUIET = 10.0
"""Seconds in which nothing has come, so that waiting for more is in vain."""
MAY_COME = ("lost", "will never came", "given to nobody", "not acknowledged")
"""Promises that are kept late: waiting for them makes sense."""
SETUP_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """``steps``: instead of those that the fault and the seed would give. ``replication`` and
    ``on_no_quorum``: of sessions; blank: as it is unless it is said."""

    workloads: tuple[str, ...]
    fault: str
    seed: int
    strict: bool = False
    pace: float = 1.0
    warm: bool = False
    steps: tuple[Step, ...] | None = None
    replication: str = ""
    on_no_quorum: str = ""

    def schedule(self) -> list[Step]:
        if self.steps is not None:
            return list(self.steps)
        return FAULTS[self.fault].plan(Random(f"{self.fault}/{self.seed}"))

    def header(self) -> dict[str, Any]:
        return {**asdict(self), "steps": [asdict(step) for step in self.schedule()]}

    @classmethod
    def of_header(cls, header: dict[str, Any]) -> Plan:
        return convert(header, cls)


@dataclass(slots=True)
class Outcome:
    plan: Plan
    events: list[Event]
    verdicts: dict[str, list[Violation]] = field(default_factory=dict)
    seconds: float = 0.0
    directory: Path = Path()

    @property
    def ok(self) -> bool:
        return not any(self.verdicts.values())


def judged(plan: Plan, events: Sequence[Event], only: Iterable[str] = ()) -> dict[str, list[Violation]]:
    """The verdict of each workload, or of some."""
    names = list(only) or plan.workloads
    seen: dict[str, list[Event]] = {name: [] for name in names}
    for event in events:
        for name in (event.client.partition("/")[0],) if event.client else names:
            if name in seen:
                seen[name].append(event)
    return {name: judge(Story(seen[name]), WORKLOADS[name].promises, strict=plan.strict) for name in names}


async def run(plan: Plan, directory: Path) -> Outcome:
    """Run it, and leave ``history.jsonl`` and the logs of the nodes in ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    history = History()
    fault = FAULTS[plan.fault]
    tree = previous.unpack(directory) if fault.previous else None
    cluster = Cluster(
        directory,
        history,
        small_disc=fault.small_disc,
        warm=plan.warm,
        previous=tree,
        replication=plan.replication,
        on_no_quorum=plan.on_no_quorum,
    )
    if fault.network and cluster.net is None:
        raise PermissionError(f"the fault {plan.fault} needs network namespaces, and so root")
    outcome = Outcome(plan, history.events, directory=directory)
    try:
        await cluster.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                await _play(plan, cluster, history, tasks)
                # Workloads never end by themselves.
                raise _OverError
        except* _OverError:
            pass
        history.record("end")
        outcome.verdicts = judged(plan, history.events)
        outcome.seconds = history.now()
    finally:
        await cluster.close()
        write(directory / "history.jsonl", plan.header(), history.events)
    return outcome


class _OverError(Exception):
    pass


async def _play(plan: Plan, cluster: Cluster, history: History, tasks: asyncio.TaskGroup) -> None:
    joined: set[int] = set()
    world = World(
        history,
        cluster.doors,
        lambda: [*cluster.nodes, *(joined & cluster.running)],
        Random(f"{plan.fault}/{plan.seed}/clients"),
        pace=plan.pace,
    )
    world.split = any(step.action in ("cut", "pause") for step in plan.schedule())
    async with asyncio.timeout(SETUP_TIMEOUT):
        await asyncio.gather(*(WORKLOADS[name].start(world, name, tasks) for name in plan.workloads))
    await _Faults(cluster, history, world, joined).play(plan.schedule())
    await cluster.recover()
    await asyncio.sleep(AFTER_FAULT)
    await cluster.whole()
    history.record("settling")
    world.settling.set()
    finished = asyncio.gather(*(WORKLOADS[name].finish(world, name) for name in plan.workloads))
    await asyncio.gather(finished, asyncio.sleep(SETTLE_AT_LEAST))
    # What was published in the end may be on its way.
    await asyncio.sleep(2.0)
    await _settle(plan, history, world)


async def _settle(plan: Plan, history: History, world: World) -> None:
    """Wait as long as it may help: until nothing is on its way and nothing is missed, or time is up."""
    began = history.now()
    at_most = SETTLE_AT_MOST
    missing = list(plan.workloads)
    while history.now() - began < at_most:
        verdicts = judged(plan, history.events, missing)
        wills = any(v.promise == "will never came" for found in verdicts.values() for v in found)
        at_most = WILLS_AT_MOST if wills else SETTLE_AT_MOST
        missing = [name for name in missing if any(v.promise in MAY_COME for v in verdicts[name])]
        pending = any(client.pending and client.connected for client in world.clients)
        comes = (e.at for e in reversed(history.events) if e.kind in ("received", "acknowledged"))
        last = next(comes, 0.0)
        quiet = history.now() - max(last, began) > QUIET and not wills
        if not (missing or pending) or quiet:
            break
        await asyncio.sleep(2.0)


class _Faults:
    """Carries out the steps of a schedule."""

    def __init__(self, cluster: Cluster, history: History, world: World, joined: set[int]) -> None:
        self._cluster = cluster
        self._history = history
        self._world = world
        self._joined = joined
        self._owner = 0
        self._locks = {node: asyncio.Lock() for node in cluster.addresses}
        self._late: set[asyncio.Task[None]] = set()

    async def play(self, steps: Sequence[Step]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for step in steps:
            await asyncio.sleep(began + step.at - loop.time())
            self._history.record("fault", note=str(step))
            self._do(step)
            if step.action == "await":
                since = loop.time()
                await self._all_done()
                await self._cluster.whole()
                began += loop.time() - since
        await self._all_done()

    async def _all_done(self) -> None:
        await asyncio.gather(*self._late)
        self._late.clear()

    def _node(self, who: str) -> int:
        if who == "owner":
            client = self._world.owner
            self._owner = self._owner or (client.node if client is not None else ROLES["third"])
            return self._owner
        return ROLES.get(who) or int(who)

    def _do(self, step: Step) -> None:
        nodes = [self._node(who) for who in step.who]
        cluster = self._cluster
        match step.action:
            case "kill" | "pause" | "resume" | "uncut" | "fill" | "unfill" as action:
                getattr(cluster, action)(*nodes)
            case "cut":
                cluster.cut(nodes[0], nodes[1], step.share)
            case "start" | "stop" | "drain":
                for node in nodes:
                    task = asyncio.create_task(self._slowly(step.action, node))
                    self._late.add(task)
            case "nothing" | "await":
                pass
            case unknown:
                raise ValueError(f"no such action: {unknown}")

    async def _slowly(self, action: str, node: int) -> None:
        """What takes its time, in its turn for each node."""
        cluster = self._cluster
        async with self._locks[node]:
            match action:
                case "start":
                    await cluster.start(node)
                    if node not in cluster.nodes:
                        self._joined.add(node)
                case "stop":
                    await cluster.stop(node)
                case "drain":
                    self._joined.discard(node)
                    await cluster.drain(node)
                    await cluster.stop(node)
