"""Applications: parts of a node, started in order of their dependencies and stopped in reverse.

An application is a start function that returns its topmost process, mostly a supervisor. The effect of its
end depends on its type, as in OTP:

=========== ======================= =====================
type        normal, shutdown        other reasons
=========== ======================= =====================
permanent   the node stops          the node stops
transient   reported                the node stops
temporary   reported                reported
=========== ======================= =====================

"The node stops" here means that ``Applications`` ends with ``("shutdown", ("application_terminated",
name, reason))`` after it has stopped the others; its starter then stops the node.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from gossamer.supervisor.server.genserver import Stop
from gossamer.supervisor.supervise.children import ask
from gossamer.supervisor.supervise.spec import ChildSpec, Restart, Shutdown, Start, check, check_choice
from gossamer.supervisor.supervise.supervisor import Supervisor
from gossamer.supervisor.values import SHUTDOWN, Destination, Pid, Reason, describe, is_clean

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Application:
    """Part of a node. ``shutdown``: seconds for its topmost process to stop, or "infinity"."""

    name: str
    start: Start
    depends: tuple[str, ...] = ()
    type: Literal["permanent", "transient", "temporary"] = "temporary"
    shutdown: Shutdown = "infinity"

    def __post_init__(self) -> None:
        check_choice(f"application {self.name!r}", "type", self.type, Restart)


def start_order(applications: Iterable[Application], running: Sequence[str] = ()) -> list[Application]:
    """Return applications with dependencies first, otherwise in the given order.

    Raises:
        BadChildSpec: a dependency is missing, a name is repeated, or dependencies form a cycle.
    """
    waiting: dict[str, Application] = {}
    for application in applications:
        name = application.name
        check(name not in waiting, "applications", "name", name, "a name that no other has")
        waiting[name] = application
    done = set(running)
    for application in waiting.values():
        for name in application.depends:
            known = name in waiting or name in done
            check(known, f"application {application.name!r}", "depends", name, "a known application")
    order: list[Application] = []
    while waiting:
        ready = [a for a in waiting.values() if done.issuperset(a.depends)][:1]
        check(bool(ready), "applications", "depends", sorted(waiting), "no circle of dependencies")
        order += ready
        done.add(ready[0].name)
        del waiting[ready[0].name]
    return order


def _child(application: Application) -> ChildSpec:
    """Return the specification of its topmost process, which is removed once ended."""
    return ChildSpec(application.name, application.start, "temporary", application.shutdown, "supervisor")


class Applications(Supervisor):
    """Starts, monitors and stops the applications of a node: a supervisor that restarts none of them."""

    async def init(self, applications: Iterable[Application] = ()) -> None:  # type: ignore[override]
        """Start all applications; when one fails, stop those before it and fail.

        Raises:
            BadChildSpec: the dependencies are invalid; nothing was started.
        """
        ordered = start_order(applications)
        self._applications = {application.name: application for application in ordered}
        await super().init([_child(application) for application in ordered])

    # Administration.

    @staticmethod
    async def start_application(
        controller: Destination, application: Application, timeout: float | None = None
    ) -> None:
        """Start one more application; its dependencies must run.

        Raises:
            AlreadyStarted, BadChildSpec, StartFailed: it runs, lacks a dependency, or failed.
        """
        await ask(controller, timeout, Applications._start_more, application)

    @staticmethod
    async def stop_application(controller: Destination, name: str, timeout: float | None = None) -> None:
        """Stop an application, of any type.

        Raises:
            ChildNotFound: it does not run.
        """
        await ask(controller, timeout, Applications._terminate_child, name)

    @staticmethod
    async def which_applications(
        controller: Destination, timeout: float | None = None
    ) -> list[tuple[str, Pid]]:
        """Return names and topmost processes, in start order."""
        children = await ask(controller, timeout, Applications._which)
        return [(child.id, child.pid) for child in children if isinstance(child.pid, Pid)]

    async def _start_more(self, application: Application) -> None:
        start_order([application], list(self._children))
        await self._start_child(_child(application))
        self._applications[application.name] = application

    # Ends.

    async def _exited(self, pid: Pid, reason: Reason) -> Stop | None:
        child = self._running.get(pid)
        await super()._exited(pid, reason)
        if child is None:
            return None
        name, kind = child.spec.id, self._applications[child.spec.id].type
        fatal = kind == "permanent" or (kind == "transient" and not is_clean(reason))
        level = logging.ERROR if fatal else logging.INFO
        log.log(
            level, "application_ended", application=name, type=kind, reason=describe(reason), node_stops=fatal
        )
        return Stop((SHUTDOWN, ("application_terminated", name, reason))) if fatal else None
