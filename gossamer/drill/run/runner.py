"""Runner of a drill, from its plan to its verdicts.

::

    start ─▶ clients ─▶ warm-up ─▶ split (the script's fault) ─▶ heal ─▶ after ─▶ drain ─▶ record

Rules: 1. The end of the heal is observed, not timed: all nodes ready, all routes as before, no split open, no
heal under way, for a moment.  2. All waits are bounded; an event that did not happen in time is missing in
the record, and is no error of the drill.  3. However the drill ends, the back end is closed, and the janitor
removes everything that the drill created.
"""

from __future__ import annotations

import asyncio
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import structlog
from msgspec.structs import replace

from gossamer import __version__
from gossamer.drill.record import (
    BackEndName,
    ClientDrop,
    Clients,
    DrillRecord,
    Mark,
    MarkKind,
    Phase,
    PhaseName,
    Plan,
    Setting,
    Side,
)
from gossamer.drill.report.copies import PRESENT
from gossamer.drill.report.promises import judge, measure
from gossamer.drill.run.client import TrafficClient
from gossamer.drill.run.executor import Executor
from gossamer.drill.run.load import Load
from gossamer.drill.run.script import Script, check, script_of
from gossamer.drill.run.watch import Sight, Watch, ends_of, heals_of, quarantined_of
from gossamer.drill.stage.backend import BackEnd, GateBackEnd
from gossamer.drill.stage.janitor import Janitor
from gossamer.drill.stage.netns import NetnsBackEnd
from gossamer.errors import GossamerError
from gossamer.faults import DRILLS
from gossamer.launch import logging_to
from gossamer.network import SystemNetwork

log = structlog.get_logger(__name__)

HEAL_TIMEOUT = 120.0
"""Timeout in seconds for everything to be as before."""
QUIET = 3.0
"""Seconds without anything open after which a drill considers the cluster healed."""
DRAIN_TIMEOUT = 15.0
DRAIN_QUIET = 2.0
"""Seconds without a delivery after which no more are expected."""
_NODE_SETTING = "GOSSAMER_"

StepName = Literal[
    "starting", "connecting", "warm-up", "split", "heal", "after", "draining", "closing", "done"
]


@dataclass(slots=True)
class Progress:
    """State of a running drill, for displays. Times are the drill's."""

    plan: Plan
    step: StepName = "starting"
    now: Callable[[], float] = lambda: 0.0
    sides: tuple[Side, ...] = ()
    phases: list[Phase] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    drops: list[ClientDrop] = field(default_factory=list)
    sight: Sight = field(default_factory=Sight)
    load: Load | None = None


def backend_of(name: BackEndName, ended: Callable[[str, str], None]) -> BackEnd:
    """Create the back end of that name. Raises BackEndError if it cannot work here."""
    return GateBackEnd(ended=ended) if name == "gate" else NetnsBackEnd(ended=ended)


async def conduct(
    plan: Plan,
    *,
    keep: bool = False,
    start_timeout: float = 60.0,
    tell: Callable[[Mark | StepName], None] = lambda _: None,
    show: Callable[[Progress], None] = lambda _: None,
) -> tuple[DrillRecord, Path]:
    """Run one drill, and judge it; its directory is kept only with ``keep``.

    ``tell`` gets every mark and every step that begins, ``show`` the progress object, once, at the start.

    Raises:
        GossamerError: the plan does not fit, the back end does not work here, the cluster does not start.
        OSError, TimeoutError: the clients cannot connect.
    """
    # Before anything is created: an invalid plan fails at once.
    script_of(plan)
    drill = _Drill(plan, tell)
    show(drill.progress)
    janitor = Janitor()
    try:
        directory = Path(tempfile.mkdtemp(prefix="gossamer-drill-"))
        if not keep:
            janitor.run("rm", "-rf", str(directory))
        with logging_to(directory / "drill.log"):
            record = await drill.run(directory, start_timeout)
        return replace(record, verdicts=judge(record)), directory
    finally:
        await asyncio.to_thread(janitor.close)


class _Drill:
    """Drill under way; ``tell`` gets every mark and every step that begins."""

    def __init__(self, plan: Plan, tell: Callable[[Mark | StepName], None]) -> None:
        self.progress = Progress(plan)
        self._backend = backend_of(plan.backend, self._node_ended)
        check(plan, self._backend.abilities)
        self._tell = tell
        self._zero = 0.0
        self._began_at = 0.0
        self._load_before = os.getloadavg()[0]
        self._spent = 0.0
        self._down: set[str] = set()

    async def run(self, directory: Path, start_timeout: float) -> DrillRecord:
        """Run the drill and return its record."""
        try:
            self._step("starting")
            plan = self.progress.plan
            ordered = {key: str(to) for key, to in plan.settings.items() if key.startswith(_NODE_SETTING)}
            settings = DRILLS[plan.kind].configuration | ordered
            await self._backend.start(
                nodes=len(plan.nodes), directory=directory, settings=settings, start_timeout=start_timeout
            )
            return await self._run()
        finally:
            self._step("closing")
            await self._backend.close()

    async def _run(self) -> DrillRecord:
        progress, nodes = self.progress, self._backend.nodes
        plan = progress.plan = replace(progress.plan, nodes=tuple(node.name for node in nodes))
        script = script_of(plan)
        progress.sides = script.sides
        loop = asyncio.get_running_loop()
        # Until the first phase begins, all times are negative.
        self._zero = loop.time() + 1e6
        progress.now = lambda: loop.time() - self._zero
        load = progress.load = Load(
            nodes,
            rate=plan.load,
            seed=plan.seed,
            network=SystemNetwork(),
            now=progress.now,
            changed=self._changed,
        )
        watch = Watch(nodes, now=progress.now, tell=self._mark)
        executor = Executor(self._backend, watch, load, note=self._note)
        self._down = executor.down
        try:
            self._step("connecting")
            await load.connect()
            await executor.learn_routes()
            await executor.perform(script.before)
            self._zero, self._began_at = loop.time(), time.time()
            self._spent = time.process_time()
            load.begin()
            watch.begin()
            failure = await self._phases(script, executor)
            self._step("draining")
            await load.stop()
            await _drain(load)
            await watch.look()
            return await self._record(script, executor, watch, load, failure)
        finally:
            await load.close()
            await watch.close()

    async def _phases(self, script: Script, executor: Executor) -> str:
        """Run the phases under load; return why they did not complete, empty if they did."""
        plan = self.progress.plan
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

    async def _record(
        self, script: Script, executor: Executor, watch: Watch, load: Load, failure: str
    ) -> DrillRecord:
        progress, ledger, nodes = self.progress, load.ledger, self._backend.nodes
        plan, seconds = progress.plan, progress.now()
        side_of = {name: side.name for side in script.sides for name in side.nodes}.__getitem__

        def parted(phase: PhaseName, one: str, other: str) -> bool:
            if phase == "heal" and executor.coordinator in (one, other):
                return True
            return phase == "split" and (one, other) in script.parted

        heals = await heals_of(watch, since=self._began_at)
        record = DrillRecord(
            plan=plan,
            began_at=self._began_at,
            seconds=round(seconds, 3),
            sides=script.sides,
            phases=tuple(progress.phases),
            marks=tuple(sorted(progress.marks, key=lambda mark: mark.at)),
            traffic=ledger.tallies(
                progress.phases, side_of=side_of, parted=parted, late_after=plan.late_after
            ),
            samples=ledger.samples(seconds, side_of=side_of),
            clients=Clients(
                len(load.publishers), len(load.subscribers), tuple(progress.drops), tuple(executor.moved)
            ),
            heals=heals,
            merged=sum(heal.restored + heal.merged for heal in heals),
            quarantined=await quarantined_of(watch, nodes),
            conflicts=executor.conflicts,
            ends=await ends_of(watch, nodes),
            said=tuple(executor.said),
            failure=failure,
            machine=self._machine(load, seconds),
        )
        return replace(record, speeds=measure(record))

    def _machine(self, load: Load, seconds: float) -> dict[str, Setting]:
        share = (time.process_time() - self._spent) / max(seconds, 1e-3)
        return {
            "cores": float(os.cpu_count() or 1),
            "load average before": self._load_before,
            "load average after": os.getloadavg()[0],
            "processor share of the drill": round(share, 3),
            "longest stall of the drill": round(load.lag, 3),
            "withheld messages": float(load.withheld),
            "foreign messages": float(load.ledger.foreign),
            "version": __version__,
            "python": platform.python_version(),
        }

    # -- recording

    @contextmanager
    def _phase(self, name: PhaseName) -> Iterator[None]:
        """Run the body as a phase, which is recorded at its end."""
        self._step(name)
        phases = self.progress.phases
        begin = phases[-1].end if phases else 0.0
        try:
            yield
        finally:
            phases.append(Phase(name, begin, self._now()))

    def _step(self, name: StepName) -> None:
        self.progress.step = name
        self._tell(name)

    def _now(self) -> float:
        return round(self.progress.now(), 4)

    def _mark(self, mark: Mark) -> None:
        if mark.at < 0:
            # Before the load.
            return
        self.progress.marks.append(mark)
        self.progress.sight.note(mark)
        self._tell(mark)

    def _note(self, kind: MarkKind, node: str = "", *, peer: str = "", detail: str = "") -> Mark:
        mark = Mark(self._now(), node, kind, peer, detail)
        self._mark(mark)
        return mark

    def _changed(self, client: TrafficClient, reason: str) -> None:
        """Record that a client's connection ended, or is back."""
        node = client.node.name
        if reason:
            drop = ClientDrop(self._now(), client.client_id, node, reason, excused=node in self._down)
            self.progress.drops.append(drop)
        detail = reason or (PRESENT if client.present else "")
        self._note("client dropped" if reason else "client back", node, peer=client.client_id, detail=detail)

    def _node_ended(self, name: str, how: str) -> None:
        """Record an unexpected end of a node's process."""
        self._note("process ended", name, detail=how)


async def _drain(load: Load) -> None:
    """Wait for messages in flight, until deliveries cease."""
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
