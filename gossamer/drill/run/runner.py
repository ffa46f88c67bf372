"""Carries a drill out: starts the cluster, puts load on it, does what the script says, watches, and records.

::

    start ─▶ clients ─▶ warm-up ─▶ split (the script's fault) ─▶ heal ─▶ after ─▶ drain ─▶ record

Rules: 1. The end of the heal is seen, not awaited by the clock: all nodes ready, all routes as before, no
split open, no heal under way, for a moment.  2. All waits are bounded; what did not happen in time is missing
in the record, and is no error of the drill.  3. However it ends, the back end is closed; whoever called
closes the rest.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import structlog
from msgspec.structs import replace

from gossamer import __version__
from gossamer.drill.load.load import Drop, Load
from gossamer.drill.record import (
    ClientDrop,
    Clients,
    DrillRecord,
    Mark,
    Phase,
    PhaseName,
    Plan,
    Setting,
    Side,
)
from gossamer.drill.report.speeds import speeds_of
from gossamer.drill.run.abilities import check
from gossamer.drill.run.executor import Executor
from gossamer.drill.run.findings import findings_of
from gossamer.drill.run.script import Script, script_of
from gossamer.drill.run.watch import Sight, Watch
from gossamer.drill.stage.backend import BackEnd, ClusterSpec
from gossamer.errors import GossamerError
from gossamer.network import SystemNetwork

__all__ = ["Drill", "Progress"]

log = structlog.get_logger(__name__)

HEAL_TIMEOUT = 120.0
"""Seconds for everything to be as before."""
QUIET = 3.0
"""Seconds for which nothing may be open before a drill believes that all is healed."""
DRAIN_TIMEOUT = 15.0
DRAIN_QUIET = 2.0
"""Seconds without a delivery after which nothing more is expected."""

StepName = Literal[
    "starting", "connecting", "warm-up", "split", "heal", "after", "draining", "closing", "done"
]


@dataclass(slots=True)
class Progress:
    """What is known so far, for those who look on. Times are the drill's."""

    plan: Plan
    step: StepName = "starting"
    now: Callable[[], float] = lambda: 0.0
    sides: tuple[Side, ...] = ()
    phases: list[Phase] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    drops: list[ClientDrop] = field(default_factory=list)
    sight: Sight = field(default_factory=Sight)
    load: Load | None = None


class Drill:
    """One drill; ``tell`` hears of every mark and of every step that begins.

    ``make`` makes the back end, given who is to hear of nodes that end by themselves.
    """

    def __init__(
        self,
        plan: Plan,
        make: Callable[[Callable[[str, str], None]], BackEnd],
        *,
        tell: Callable[[Mark | StepName], None] = lambda _: None,
    ) -> None:
        script_of(plan)
        self.progress = Progress(plan)
        self._backend = make(self.node_ended)
        check(plan, self._backend.abilities)
        self._tell = tell
        self._zero = 0.0
        self._began_at = 0.0
        self._load_before = os.getloadavg()[0]
        self._spent = 0.0
        self._executor: Executor | None = None

    async def run(self, spec: ClusterSpec) -> DrillRecord:
        """Carry it out.

        Raises:
            GossamerError, OSError, TimeoutError: the cluster or the clients could not be started.
        """
        try:
            return await self._run(spec)
        finally:
            self._step("closing")
            await self._backend.close()

    async def _run(self, spec: ClusterSpec) -> DrillRecord:
        progress = self.progress
        self._step("starting")
        nodes = await self._backend.start(spec)
        plan = progress.plan = replace(progress.plan, nodes=tuple(node.name for node in nodes))
        script = script_of(plan)
        progress.sides = script.sides
        loop = asyncio.get_running_loop()
        # Until the first phase begins, all is before the drill's time.
        self._zero = loop.time() + 1e6
        progress.now = lambda: loop.time() - self._zero
        load = progress.load = Load(
            nodes,
            rate=plan.load,
            seed=plan.seed,
            network=SystemNetwork(),
            now=progress.now,
            on_drop=self._dropped,
            on_back=self._came_back,
        )
        watch = Watch(nodes, now=progress.now, tell=self._mark)
        executor = self._executor = Executor(self._backend, watch, load, now=progress.now, tell=self._mark)
        try:
            self._step("connecting")
            await load.connect()
            await executor.learn_routes()
            self._zero, self._began_at = loop.time(), time.time()
            self._spent = time.process_time()
            failure = await self._phases(script, executor, load, watch)
            self._step("draining")
            await load.stop()
            await self._drain(load)
            await watch.look()
            return await self._record(script, watch, load, failure)
        finally:
            await load.close()
            await watch.close()

    async def _phases(self, script: Script, executor: Executor, load: Load, watch: Watch) -> str:
        """All that is under load; why it could not be carried out, empty if it could."""
        plan = self.progress.plan
        load.begin()
        watch.begin()
        failure = ""
        with self._phase("warm-up"):
            await asyncio.sleep(plan.warm_up)
        try:
            with self._phase("split"):
                await executor.perform(script.split)
            with self._phase("heal"):
                await executor.perform(script.heal)
                try:
                    async with asyncio.timeout(HEAL_TIMEOUT):
                        await executor.until_whole(quiet=QUIET)
                except TimeoutError:
                    failure = f"not as before within {HEAL_TIMEOUT:g} s: {await executor.missing()}"
        except GossamerError as error:
            log.error("drill_failed", error=str(error))
            failure = str(error)
        with self._phase("after"):
            await asyncio.sleep(plan.after)
        return failure

    async def _drain(self, load: Load) -> None:
        """Wait for what is still on its way, and not for what will never come."""
        ledger = load.ledger
        loop = asyncio.get_running_loop()
        end = loop.time() + DRAIN_TIMEOUT
        delivered, since = -1, loop.time()
        while ledger.owed > 0 and loop.time() < end:
            if ledger.delivered.total() != delivered:
                delivered, since = ledger.delivered.total(), loop.time()
            elif loop.time() - since >= DRAIN_QUIET:
                return
            await asyncio.sleep(0.1)

    async def _record(self, script: Script, watch: Watch, load: Load, failure: str) -> DrillRecord:
        progress = self.progress
        plan, marks = progress.plan, tuple(sorted(progress.marks, key=lambda mark: mark.at))
        seconds = progress.now()
        side_of = {name: side.name for side in script.sides for name in side.nodes}
        found = await findings_of(watch, self._backend.nodes(), since=self._began_at)
        killed = executor.coordinator if (executor := self._executor) is not None else ""

        def parted(phase: PhaseName, one: str, other: str) -> bool:
            if phase == "heal" and killed in (one, other):
                return True
            return phase == "split" and (one, other) in script.parted

        traffic = load.ledger.tallies(
            progress.phases,
            side_of=side_of.__getitem__,
            parted=parted,
            late_after=plan.late_after,
        )
        machine: dict[str, Setting] = {
            "cores": float(os.cpu_count() or 1),
            "load average before": self._load_before,
            "load average after": os.getloadavg()[0],
            "processor share of the drill": round(
                (time.process_time() - self._spent) / max(seconds, 1e-3), 3
            ),
            "longest stall of the drill": round(load.lag, 3),
            "withheld messages": float(load.withheld),
            "foreign messages": float(load.ledger.foreign),
            "version": __version__,
            "python": platform.python_version(),
        }
        return DrillRecord(
            plan=plan,
            began_at=self._began_at,
            seconds=round(seconds, 3),
            sides=script.sides,
            phases=tuple(progress.phases),
            marks=marks,
            traffic=traffic,
            samples=load.ledger.samples(seconds, side_of=side_of.__getitem__),
            clients=Clients(len(load.publishers), len(load.subscribers), tuple(progress.drops)),
            heals=found.heals,
            merged=sum(heal.restored + heal.merged for heal in found.heals),
            quarantined=found.quarantined,
            conflicts=executor.conflicts if executor is not None else 0,
            ends=found.ends,
            speeds=speeds_of(plan, script.sides, marks, script.parted),
            failure=failure,
            machine=machine,
        )

    # -- what is noted

    def _phase(self, name: PhaseName) -> _Open:
        self._step(name)
        return _Open(self.progress, name)

    def _step(self, name: StepName) -> None:
        self.progress.step = name
        self._tell(name)

    def _mark(self, mark: Mark) -> None:
        self.progress.marks.append(mark)
        self.progress.sight.note(mark)
        self._tell(mark)

    def _dropped(self, drop: Drop) -> None:
        excused = self._executor is not None and drop.node in self._executor.down
        self.progress.drops.append(
            ClientDrop(round(drop.at, 4), drop.client, drop.node, drop.reason, excused=excused)
        )
        self._mark(Mark(round(drop.at, 4), drop.node, "client dropped", drop.client, drop.reason))

    def _came_back(self, client: str, node: str) -> None:
        self._mark(Mark(round(self.progress.now(), 4), node, "client back", client))

    def node_ended(self, name: str, how: str) -> None:
        """A node's process ended, and nobody here wanted it."""
        self._mark(Mark(round(self.progress.now(), 4), name, "process ended", detail=how))


class _Open:
    """A phase that goes on; it is noted when it ends."""

    def __init__(self, progress: Progress, name: PhaseName) -> None:
        self._progress = progress
        self._name: PhaseName = name
        self._begin = progress.phases[-1].end if progress.phases else 0.0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        end = round(self._progress.now(), 4)
        self._progress.phases.append(Phase(self._name, self._begin, end))
