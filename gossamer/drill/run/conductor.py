"""A whole drill from its plan to its verdicts: directory, back end, run, cleaning up.

What ``gossamer drill`` and the suite of all drills both call.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog
from msgspec.structs import replace

from gossamer.drill.record import BackEndName, DrillRecord, Mark, Plan
from gossamer.drill.report.promises import judge
from gossamer.drill.run.runner import Drill, Progress, StepName
from gossamer.drill.stage.backend import BackEnd, ClusterSpec
from gossamer.drill.stage.gate import GateBackEnd
from gossamer.drill.stage.janitor import Janitor

__all__ = ["backend_of", "conduct", "unnamed"]

_NODE_SETTING = "GOSSAMER_"


def unnamed(nodes: int) -> tuple[str, ...]:
    """Stand-ins for the names that a back end gives; enough to see whether a plan fits."""
    return tuple(f"node{number}" for number in range(1, nodes + 1))


def backend_of(name: BackEndName, ended: Callable[[str, str], None]) -> BackEnd:
    """The back end of that name.

    Raises:
        BackEndError: it cannot work here.
    """
    if name == "gate":
        return GateBackEnd(ended=ended)
    # Here, since it looks at what the machine has.
    from gossamer.drill.stage.netns import NetnsBackEnd

    return NetnsBackEnd(ended=ended)


async def conduct(
    plan: Plan,
    *,
    keep: bool = False,
    patience: float = 60.0,
    tell: Callable[[Mark | StepName], None] = lambda _: None,
    show: Callable[[Progress], None] = lambda _: None,
) -> tuple[DrillRecord, Path]:
    """Carry out one drill, and judge it; the directory it ran in is there afterwards only with ``keep``.

    ``tell`` hears of marks and steps, ``show`` gets what may be looked at all the while.

    Raises:
        GossamerError: the plan does not fit, the back end does not work here, the cluster does not start.
    """
    # Before anything is made: what does not fit is said at once.
    drill = Drill(plan, partial(backend_of, plan.backend), tell=tell)
    show(drill.progress)
    janitor = Janitor()
    try:
        directory = Path(tempfile.mkdtemp(prefix="gossamer-drill-"))
        janitor.remove(directory)
        if keep:
            janitor.keep(directory)
        with (directory / "drill.log").open("a", encoding="utf-8") as log:
            _log_to(log)
            settings = {
                key: str(value) for key, value in plan.settings.items() if key.startswith(_NODE_SETTING)
            }
            spec = ClusterSpec(
                nodes=len(plan.nodes), directory=directory, settings=settings, patience=patience
            )
            record = await drill.run(spec)
        return replace(record, verdicts=judge(record)), directory
    finally:
        await janitor.close()


def _log_to(log: object) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(log),  # type: ignore[arg-type]
    )
