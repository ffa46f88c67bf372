"""Applications: the parts of a node, started in order of their dependencies and stopped in reverse.

An application is a start function that gives back its topmost process, mostly a supervisor. What its end
means depends on its type, as in OTP:

=========== ======================= =====================
type        normal, shutdown        other reasons
=========== ======================= =====================
permanent   the node stops          the node stops
transient   reported                the node stops
temporary   reported                reported
=========== ======================= =====================

"The node stops" here means that ``Applications`` ends with ``("shutdown", ("application_terminated",
name, reason))`` after it has stopped the others; whoever started it takes the node down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from gossamer.supervisor.errors import AlreadyStarted, ChildNotFound, StartFailed, StopInit
from gossamer.supervisor.process.functions import trap_exit
from gossamer.supervisor.server.genserver import NoReply, Stop
from gossamer.supervisor.supervise.children import Administered, Failed, ask, reap, start_one
from gossamer.supervisor.supervise.spec import ChildSpec, Restart, Shutdown, Start, check, check_choice
from gossamer.supervisor.values import SHUTDOWN, Destination, Exit, Pid, Reason, describe, is_clean

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Application:
    """One part of a node. ``shutdown``: seconds its topmost process gets to stop, or "infinity"."""

    name: str
    start: Start
    depends: tuple[str, ...] = ()
    type: Literal["permanent", "transient", "temporary"] = "temporary"
    shutdown: Shutdown = "infinity"

    def __post_init__(self) -> None:
        check_choice(f"application {self.name!r}", "type", self.type, Restart)


def start_order(applications: Iterable[Application], running: Sequence[str] = ()) -> list[Application]:
    """Dependencies first, else in the order given.

    Raises:
        BadChildSpec: a dependency is missing, comes twice, or depends on itself through others.
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


class Applications(Administered):
    """Starts, watches and stops the applications of a node."""

    kind = "supervisor"

    async def init(self, applications: Iterable[Application] = ()) -> None:
        """Start all applications; when one fails, stop those before it and fail.

        Raises:
            BadChildSpec: the dependencies make no sense; nothing was started.
        """
        trap_exit(True)
        self._running: dict[str, tuple[Application, Pid]] = {}
        for application in start_order(applications):
            failed = await self._start(application)
            if failed is not None:
                await self.terminate(SHUTDOWN)
                raise StopInit((SHUTDOWN, ("application_start_failure", application.name, failed.reason)))

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
        await ask(controller, timeout, Applications._stop_one, name)

    @staticmethod
    async def which_applications(
        controller: Destination, timeout: float | None = None
    ) -> list[tuple[str, Pid]]:
        """Return names and topmost processes, in start order."""
        return await ask(controller, timeout, Applications._which)

    async def _start_more(self, application: Application) -> None:
        if application.name in self._running:
            raise AlreadyStarted(application.name, self._running[application.name][1])
        start_order([application], list(self._running))
        failed = await self._start(application)
        if failed is not None:
            raise StartFailed(f"application {application.name!r}", failed.reason)

    async def _stop_one(self, name: str) -> None:
        if name not in self._running:
            raise ChildNotFound(repr(name), list(self._running))
        await self._stop(name)

    async def _which(self) -> list[tuple[str, Pid]]:
        return [(name, pid) for name, (_, pid) in self._running.items()]

    # Callbacks.

    async def handle_info(self, message: Any) -> NoReply | Stop | None:
        if not isinstance(message, Exit):
            return await super().handle_info(message)
        for name, (application, pid) in self._running.items():
            if pid == message.source:
                del self._running[name]
                return self._ended(application, message.reason)
        return None

    async def terminate(self, reason: Reason) -> None:
        for name in reversed(list(self._running)):
            await self._stop(name)

    # The shell.

    def _ended(self, application: Application, reason: Reason) -> Stop | None:
        fatal = application.type == "permanent" or (application.type == "transient" and not is_clean(reason))
        log.log(
            40 if fatal else 20,
            "application_ended",
            application=application.name,
            type=application.type,
            reason=describe(reason),
            node_stops=fatal,
        )
        return Stop((SHUTDOWN, ("application_terminated", application.name, reason))) if fatal else None

    async def _start(self, application: Application) -> Failed | None:
        outcome = await start_one(ChildSpec(application.name, application.start, type="supervisor"))
        if isinstance(outcome, Failed):
            log.error(
                "application_start_failure", application=application.name, reason=describe(outcome.reason)
            )
            return outcome
        if outcome is not None:
            self._running[application.name] = (application, outcome)
            log.info("application_started", application=application.name, pid=str(outcome))
        return None

    async def _stop(self, name: str) -> None:
        application, pid = self._running.pop(name)
        reason = await reap(self._otp_process, pid, application.shutdown)
        log.info("application_stopped", application=name, reason=describe(reason))
