"""GenServer: a process that serves requests one after another and keeps state between them.

Rules: 1. ``Stop(reason, reply=value)`` runs ``terminate`` first and answers then.  2. ``handle_continue``
runs before any queued message.

The loop pops the mailbox itself instead of awaiting ``receive``, and yields to other processes after a
burst of messages: a mailbox that never runs empty must not block the node.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import structlog
from msgspec import UNSET, Struct

from gossamer.supervisor.errors import BadReturn, ExitProcess, NoSuchCallback
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.process import BURST, Stopped
from gossamer.supervisor.process.reports import report_crash
from gossamer.supervisor.server.behaviour import Behaviour
from gossamer.supervisor.server.system import SystemRequest, attend
from gossamer.supervisor.values import NORMAL, Cast, Exit, Reason, Timeout

log = structlog.get_logger(__name__)


class Continue(Struct, frozen=True):
    """Run ``handle_continue(token)`` before the next message."""

    token: object = None


class Reply(Struct, frozen=True):
    """Answer the caller and continue; ``timeout`` seconds without a message yield a ``Timeout()``."""

    value: object
    timeout: float | None = None
    then: Continue | None = None


class NoReply(Struct, frozen=True):
    """Continue without an answer; ``reply(caller, value)`` may give it later."""

    timeout: float | None = None
    then: Continue | None = None


class Stop(Struct, frozen=True):
    """End with ``reason``, answering the caller with ``reply`` if given."""

    reason: Reason = NORMAL
    reply: object = UNSET


def reply(caller: Caller, value: object) -> None:
    """Answer a call whose callback returned ``NoReply``; from any process, at any time."""
    caller.answer(value)


class GenServer(Behaviour):
    """Process that serves requests one after another; subclass it and define the callbacks that you need.

    State is the instance's own attributes. A callback returns what happens next: ``Reply(value)``,
    ``NoReply()`` or ``Stop(reason)``; None means ``NoReply()`` where no caller waits.
    """

    async def init(self, *args: Any, **options: Any) -> Continue | None:
        """Prepare; the starter waits for it. Raise ``Ignore()`` or ``StopInit(reason)`` to not start."""
        return None

    async def handle_call(self, request: Any, caller: Caller) -> Reply | NoReply | Stop:
        """Handle a request with an answer."""
        raise NoSuchCallback(type(self).__name__, "handle_call", request)

    async def handle_cast(self, request: Any) -> NoReply | Stop | None:
        """Handle a request without an answer."""
        raise NoSuchCallback(type(self).__name__, "handle_cast", request)

    async def handle_info(self, message: Any) -> NoReply | Stop | None:
        """Handle any other message: a sent one, ``Exit``, ``Down``, timers."""
        log.warning(
            "unexpected_message",
            pid=str(self._otp_process.pid),
            label=self._otp_process.label,
            message=type(message).__name__,
        )
        return None

    async def handle_continue(self, token: Any) -> NoReply | Stop | None:
        """Do the work deferred by ``Continue(token)``."""
        raise NoSuchCallback(type(self).__name__, "handle_continue", token)

    # The shell.

    async def _otp_begin(self, args: tuple[object, ...], options: dict[str, object]) -> Continue | None:
        then = await self.init(*args, **options)
        if then is not None and type(then) is not Continue:
            raise BadReturn(f"{type(self).__name__}.init", then, "None or Continue(token)")
        return then

    async def _otp_live(self, then: Continue | None) -> None:
        process = self._otp_process
        loop = process.loop
        mailbox = process.mailbox
        create_future = loop.create_future
        handle_call = self.handle_call
        # Code outside of any process sends as the receiver's own pid; so the runtime stops its roots.
        parent, me = process.parent, process.pid
        timeout: float | None = None
        burst = 0
        if then is not None:
            timeout = await self._otp_conclude(
                None, await self.handle_continue(then.token), "handle_continue"
            )
        while True:
            if process.reason is not None:
                # A callback swallowed the cancel.
                raise asyncio.CancelledError
            if mailbox:
                burst += 1
                if burst > BURST:
                    burst = 0
                    await asyncio.sleep(0)
            elif timeout is None:
                burst = 0
                waiter = process.waiter = create_future()
                await waiter
                if not mailbox:
                    continue
            elif await self._otp_idle(timeout):
                burst = 0
                if not mailbox:
                    continue
            else:
                mailbox.append(Timeout())
            message = mailbox.popleft()
            process.reductions += 1
            kind = type(message)
            if kind is Caller:
                outcome: Any = await handle_call(message.request, message)
                if type(outcome) is Reply and outcome.timeout is None and outcome.then is None:
                    message.answer(outcome.value)
                    timeout = None
                else:
                    timeout = await self._otp_conclude(message, outcome, "handle_call")
                continue
            if kind is Cast:
                outcome = await self.handle_cast(message.request)
                where = "handle_cast"
            elif kind is SystemRequest:
                await attend(process, message)
                continue
            elif kind is Exit and (message.source == parent or message.source == me):
                raise ExitProcess(message.reason)
            else:
                outcome = await self.handle_info(message)
                where = "handle_info"
            timeout = None if outcome is None else await self._otp_conclude(None, outcome, where)

    async def _otp_idle(self, timeout: float) -> bool:
        """Wait for a message; return False if none came in time."""
        process = self._otp_process
        waiter = process.waiter = process.loop.create_future()
        timer = process.loop.call_later(timeout, process.wake)
        try:
            await waiter
        finally:
            timer.cancel()
        return bool(process.mailbox) or process.loop.time() < timer.when()

    async def _otp_conclude(self, caller: Caller | None, outcome: Any, where: str) -> float | None:
        """Act on a callback's return value; return the timeout for the next message."""
        while True:
            kind = type(outcome)
            if kind is Stop:
                await self._otp_halt(caller, outcome)
            if kind is Reply and caller is not None:
                caller.answer(outcome.value)
            elif outcome is None and caller is None:
                return None
            elif kind is not NoReply:
                expected = "Reply, NoReply or Stop" if caller is not None else "None, NoReply or Stop"
                raise BadReturn(f"{type(self).__name__}.{where}", outcome, expected)
            if outcome.then is None:
                timeout: float | None = outcome.timeout
                return timeout
            caller, where = None, "handle_continue"
            outcome = await self.handle_continue(outcome.then.token)

    async def _otp_halt(self, caller: Caller | None, order: Stop) -> NoReturn:
        report_crash(self._otp_process, order.reason)
        await self._otp_terminate(order.reason)
        if caller is not None and order.reply is not UNSET:
            caller.answer(order.reply)
        raise Stopped(order.reason)
