"""ThespianSystem: a Thespian actor system, in processes of its own, as one of our processes.

Rules: 1. It ends when the host of the system ends, and vice versa; nothing of the system is left then.  2.
The end of an actor is reported to its starter, with the actor's own reason if it gave one.  3. Actors publish
and subscribe through the system's ``MessagePort``.  4. The queue to the host is bounded; deliveries that do
not fit are dropped and counted.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from gossamer.errors import how_to_install
from gossamer.supervisor.errors import StopInit
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.functions import exit as send_exit
from gossamer.supervisor.process.functions import self_pid, send, trap_exit
from gossamer.supervisor.server.genserver import GenServer, NoReply, Reply, Stop
from gossamer.supervisor.server.os_process import OsProcess, exit_reason
from gossamer.supervisor.thespian import wire
from gossamer.supervisor.thespian.link import BACKLOG, HostLink
from gossamer.supervisor.thespian.messages import Delivered, MessagePort, Publish, Subscribe, Unsubscribe
from gossamer.supervisor.values import NORMAL, SHUTDOWN, Crash, Exit, Pid, Reason

log = structlog.get_logger(__name__)

STRAY = 1000
"""Maximum number of reasons kept of actors without a process here (children of actors)."""


class Begin(Struct, frozen=True):
    """Request to create an actor for the calling process; the answer is its number, or ``ActorEnded``."""

    target: str


class ActorEnded(Struct, frozen=True):
    """Message to the process that represents an actor: the actor ended."""

    reason: Reason


class _Actor(Struct, eq=False):
    number: int
    owner: Pid
    starter: Caller | None
    address: str | None = None


class ThespianSystem(GenServer):
    """``await ThespianSystem.start_link(broker=port, name="thespian")``; actors are ``ThespianActor``."""

    kind = "supervisor"

    admin_port: int
    """Port of the admin, on 127.0.0.1."""
    dropped: int
    """Deliveries that did not fit."""

    async def init(
        self,
        *,
        broker: MessagePort | None = None,
        port: int = 0,
        path: Sequence[str | Path] | None = None,
        start_timeout: float = 30.0,
        grace: float = 5.0,
    ) -> None:
        """Start the system; ``port`` 0: a free one; ``path``: the import path of actors.

        Raises:
            StopInit: Thespian is not installed, the port is taken, or the system is not up in time.
        """
        trap_exit(True)
        if importlib.util.find_spec("thespian") is None:
            raise StopInit(("no_thespian", how_to_install("thespian")))
        self._broker, self._grace = broker, grace
        self.dropped = 0
        self._actors: dict[int, _Actor] = {}
        self._by_owner: dict[Pid, _Actor] = {}
        self._by_address: dict[str, _Actor] = {}
        self._pids: dict[str, int] = {}
        self._reasons: dict[str, Reason] = {}
        self._ended: dict[str, Reason] = {}
        self._questions: dict[int, Caller] = {}
        self._subscriptions: dict[tuple[str, str], Callable[[], None]] = {}
        self._next = 0
        self._refusal = ""
        self._link = HostLink(self.process, self._take)
        self.process.on_release(lambda _entry: self._let_go())
        with self._link.theirs as theirs:
            places = [*map(str, path or ()), *sys.path]
            self._host = await OsProcess.start_link(
                [
                    *(sys.executable, "-m", "gossamer.supervisor.thespian.host"),
                    *(str(theirs.fileno()), str(port), *places),
                ],
                # Read when Thespian is imported: it writes no log of its own.
                env=os.environ | {"THESPLOG_FILE_MAXSIZE": "0"},
                pass_fds=[theirs.fileno()],
                grace=1.0,
                label=f"{self.process.label} host",
            )
        self._link.listen()
        try:
            first = await self.process.receive(start_timeout, lambda m: isinstance(m, wire.Up | Exit))
        except TimeoutError:
            raise StopInit(("timeout", f"no actor system within {start_timeout:g} s")) from None
        if isinstance(first, Exit):
            # Its last frames may be unread.
            self._link.read()
            raise StopInit(("thespian_host", self._refusal or first.reason))
        self.admin_port = first.port
        log.info("thespian_up", admin_port=first.port)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply | Stop:
        if isinstance(request, Begin) and caller.pid is not None:
            self._next += 1
            actor = _Actor(self._next, caller.pid, caller)
            self._actors[actor.number] = self._by_owner[caller.pid] = actor
            self.process.link(caller.pid)
            self._link.write(wire.Create(actor.number, request.target))
            return NoReply()
        return await super().handle_call(request, caller)

    async def handle_info(self, message: object) -> NoReply | Stop | None:
        if isinstance(message, Exit):
            if message.source == self._host:
                return Stop(("thespian_host", message.reason))
            actor = self._by_owner.get(message.source)
            if actor is not None:
                self._kill(actor)
            return None
        return await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        runtime = self.process.runtime
        if runtime.alive(self._host):
            self._link.write(wire.Halt())
            try:
                await self.process.receive(
                    self._grace, lambda m: isinstance(m, Exit) and m.source == self._host
                )
            except TimeoutError:
                log.warning("thespian_shutdown_timeout", system=self.process.label, grace=self._grace)
                ended = runtime.join(self._host)
                send_exit(self._host, SHUTDOWN)
                await ended

    # Called directly by the processes that represent actors.

    def ask(self, actor: int, value: object, timeout: float, caller: Caller) -> None:
        """Ask an actor; the answer goes to ``caller``."""
        self._next += 1
        try:
            room = self._link.write(wire.Ask(actor, self._next, value, timeout))
        except wire.BadValueError as error:
            caller.fail(("bad_value", str(error)))
            return
        if room:
            self._questions[self._next] = caller
        else:
            caller.fail(("overload", f"{BACKLOG} requests wait for the actor system"))

    def tell(self, actor: int, value: object) -> None:
        """Send an actor a message."""
        try:
            self._link.write(wire.Tell(actor, value))
        except wire.BadValueError as error:
            log.error("message_dropped", system=self.process.label, error=str(error))

    def finish(self, number: int, *, kill: bool = False) -> None:
        """Stop an actor, or kill it."""
        actor = self._actors.get(number)
        if actor is not None and kill:
            self._kill(actor)
        elif actor is not None:
            self._link.write(wire.StopActor(number))

    # Frames from the system.

    def _take(self, frame: wire.FrameToNode) -> None:
        if isinstance(frame, wire.Answer):
            caller = self._questions.pop(frame.call, None)
            if caller is not None:
                if frame.failure is None:
                    caller.answer(frame.value)
                else:
                    caller.fail(("no_answer", frame.failure))
        elif isinstance(frame, wire.Created | wire.Started):
            self._begun(frame)
        elif isinstance(frame, wire.NotCreated):
            if (actor := self._actors.get(frame.actor)) is not None:
                self._over(actor, ("not_created", frame.reason))
        elif isinstance(frame, wire.Crashed):
            self._reasons[frame.address] = Crash(frame.error, frame.message, frame.traceback)
        elif isinstance(frame, wire.Ended):
            self._note_end(frame)
        elif isinstance(frame, wire.Refused):
            self._refusal = f"refused: {frame.reason}"
        elif isinstance(frame, wire.Up):
            send(self_pid(), frame)
        else:
            self._requested(frame.address, frame.request)

    def _begun(self, frame: wire.Created | wire.Started) -> None:
        """Handle one of the two frames; an actor runs once both have arrived."""
        if isinstance(frame, wire.Started):
            self._pids[frame.address] = frame.pid
            actor = self._by_address.get(frame.address)
        elif (actor := self._actors.get(frame.actor)) is not None:
            actor.address = frame.address
            self._by_address[frame.address] = actor
            if frame.address in self._ended:
                self._over(actor, self._ended.pop(frame.address))
                return
        if actor is None or actor.address not in self._pids:
            return
        starter, actor.starter = actor.starter, None
        if starter is not None:
            starter.answer(actor.number)
        if actor.owner not in self._by_owner:
            # Its starter ended meanwhile.
            self._kill(actor)

    def _note_end(self, frame: wire.Ended) -> None:
        self._pids.pop(frame.address, None)
        reason = self._reasons.pop(frame.address, None) or exit_reason(frame.status)
        for key in [key for key in self._subscriptions if key[0] == frame.address]:
            self._subscriptions.pop(key)()
            self._link.write(wire.Forget(frame.address))
        actor = self._by_address.get(frame.address)
        if actor is not None:
            self._over(actor, reason)
            return
        if len(self._ended) >= STRAY:
            del self._ended[next(iter(self._ended))]
        self._ended[frame.address] = reason
        if reason != NORMAL:
            log.error(
                "thespian_child_ended",
                system=self.process.label,
                actor=frame.of,
                reason=str(reason),
                traceback=reason.traceback if isinstance(reason, Crash) else "",
            )

    def _over(self, actor: _Actor, reason: Reason) -> None:
        del self._actors[actor.number]
        self._by_owner.pop(actor.owner, None)
        if actor.address is not None:
            self._by_address.pop(actor.address, None)
        self.process.unlink(actor.owner)
        if actor.starter is not None:
            actor.starter.answer(ActorEnded(reason))
        else:
            send(actor.owner, ActorEnded(reason))

    def _kill(self, actor: _Actor) -> None:
        pid = self._pids.get(actor.address or "")
        if pid is not None:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._by_owner.pop(actor.owner, None)

    # The broker.

    def _requested(self, address: str, request: Publish | Subscribe | Unsubscribe) -> None:
        if self._broker is None:
            log.warning("no_broker", system=self.process.label, advice="start it with broker=")
            return
        try:
            if isinstance(request, Publish):
                self._broker.publish(request)
                return
            ended = self._subscriptions.pop((address, request.filter), None)
            if ended is not None:
                ended()
            if isinstance(request, Subscribe) and address in self._pids:
                self._subscriptions[address, request.filter] = self._broker.subscribe(
                    request, lambda message: self._deliver(address, message)
                )
        except Exception as error:  # noqa: BLE001 - an actor's bad request must not end the system
            log.error("message_refused", system=self.process.label, error=str(error))

    def _deliver(self, address: str, message: Delivered) -> None:
        try:
            room = self._link.write(wire.Deliver(address, message))
        except wire.BadValueError:
            room = False
        if not room:
            if not self.dropped:
                log.warning("deliveries_dropped", system=self.process.label, bound=BACKLOG)
            self.dropped += 1

    def _let_go(self) -> None:
        for cancel in self._subscriptions.values():
            cancel()
        self._subscriptions.clear()
