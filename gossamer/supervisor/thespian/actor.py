"""ThespianActor: a Thespian actor as one of our processes.

``call`` asks the actor, ``cast`` and ``send`` tell it; values are plain data. It ends with the actor, for the
actor's reason, so a supervisor restarts it like any other process; it is stopped by ``ActorExitRequest`` and,
after ``grace`` seconds, by SIGKILL. State does not survive a restart.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gossamer.supervisor.errors import StopInit
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.functions import call, trap_exit
from gossamer.supervisor.server.genserver import GenServer, NoReply, Stop
from gossamer.supervisor.thespian.system import ActorEnded, Begin, ThespianSystem
from gossamer.supervisor.values import NOPROC, SHUTDOWN, Destination, Down, Exit, Reason, is_clean


def _target_of(actor: type | str) -> str:
    """Return the name under which the host imports an actor class, ``package.module.Class``.

    A class of ``__main__`` is imported by its file.
    """
    if isinstance(actor, str):
        return actor
    module = actor.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec is not None else Path(str(main.__file__)).stem
    return f"{module}.{actor.__qualname__}"


class ThespianActor(GenServer):
    """``await ThespianActor.start_link("thespian", Thermostat, name="thermostat")``."""

    async def init(
        self,
        system: Destination,
        actor: type | str,
        *,
        ask_timeout: float = 5.0,
        start_timeout: float = 60.0,
        grace: float = 4.0,
    ) -> None:
        """Create the actor in ``system`` and wait until it runs.

        Raises:
            StopInit: it failed; the reason is the actor's own.
        """
        trap_exit(True)
        self._ask_timeout, self._grace = ask_timeout, grace
        entry = self.process.runtime.find(system)
        found = getattr(entry, "behaviour", None)
        if entry is None or not isinstance(found, ThespianSystem):
            raise StopInit((NOPROC, f"no Thespian system {system}; start it before its actors"))
        self._system, self._system_pid = found, entry.pid
        self._ended = False
        outcome = await call(entry.pid, Begin(_target_of(actor)), timeout=start_timeout)
        if isinstance(outcome, ActorEnded):
            raise StopInit(outcome.reason)
        self._number: int = outcome

    async def handle_call(self, request: object, caller: Caller) -> NoReply:
        self._system.ask(self._number, request, self._ask_timeout, caller)
        return NoReply()

    async def handle_cast(self, request: object) -> None:
        self._system.tell(self._number, request)

    async def handle_info(self, message: object) -> Stop | None:
        if isinstance(message, ActorEnded):
            self._ended = True
            return Stop(message.reason)
        if isinstance(message, Exit):
            if message.source == self._system_pid:
                self._ended = True
                why = ("thespian_system", message.reason)
                return Stop((SHUTDOWN, why) if is_clean(message.reason) else why)
            return None
        if not isinstance(message, Down):
            self._system.tell(self._number, message)
        return None

    async def terminate(self, reason: Reason) -> None:
        for kill in (False, True):
            if not self._ended:
                self._system.finish(self._number, kill=kill)
                await self._wait_for_end()

    async def _wait_for_end(self) -> None:
        try:
            await self.process.receive(
                self._grace,
                lambda m: isinstance(m, ActorEnded) or (isinstance(m, Exit) and m.source == self._system_pid),
            )
        except TimeoutError:
            return
        self._ended = True
