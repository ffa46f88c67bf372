"""StateMachine: a server whose behaviour depends on a state, OTP's ``gen_statem``.

One callback, ``handle_event(event, state)``, returns ``Next(state, …)``, ``Keep(…)`` (or None) or
``Stop``.

Order of events: those a callback put in front (``events``) come first, then postponed ones that a change
of state brought back, then the mailbox. *Postpone* puts an event aside until the state changes; then all
that were put aside are tried again, in order of arrival.

Three kinds of timeout, in seconds: the *event* timeout comes when no other event does, and any event
cancels it; the *state* timeout belongs to the state, and a change of state cancels it; *named* timeouts
run until they are set again or cancelled (None). A timeout that was cancelled never comes, even if its
timer had fired.

``Agenda`` decides the order and keeps no time; the shell below it sets timers and takes messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

from msgspec import Struct

from gossamer.supervisor.errors import BadReturn, ExitProcess
from gossamer.supervisor.process.calls import Caller, RemoteCaller
from gossamer.supervisor.process.process import BURST
from gossamer.supervisor.server.behaviour import Behaviour, Stopped
from gossamer.supervisor.server.genserver import UNSET, Stop
from gossamer.supervisor.server.system import SystemRequest, attend
from gossamer.supervisor.values import Cast, Exit

__all__ = [
    "Agenda",
    "CallEvent",
    "Enter",
    "EventTimeout",
    "Info",
    "Internal",
    "Keep",
    "NamedTimeout",
    "Next",
    "StateMachine",
    "StateTimeout",
]


class CallEvent(Struct, frozen=True):
    """A call; answer it with ``reply(caller, value)`` or ``Next(…, reply=value)``."""

    request: Any
    caller: Caller


class Info(Struct, frozen=True):
    """Any message that is neither a call nor a cast (which comes as ``Cast``)."""

    message: Any


class Internal(Struct, frozen=True):
    """An event that a callback inserted before all others."""

    content: Any


class Enter(Struct, frozen=True):
    """The state was entered, from ``previous`` (None at the start); sent where ``state_enter`` is set."""

    previous: Hashable


class EventTimeout(Struct, frozen=True):
    """The event timeout: no other event came in time."""


class StateTimeout(Struct, frozen=True):
    """The state timeout: the state lasted as long as it may."""


class NamedTimeout(Struct, frozen=True):
    """A timeout that was set by name."""

    name: str


class Keep(Struct, frozen=True):
    """Stay in the state. ``postpone``: see this event again in the next state."""

    reply: Any = UNSET
    postpone: bool = False
    events: tuple[Any, ...] = ()
    event_timeout: float | None = None
    state_timeout: Any = UNSET
    timeouts: Mapping[str, float | None] = {}


class Next(Struct, frozen=True):
    """Go to ``state``; if that is the state already, postponed events stay postponed."""

    state: Hashable
    reply: Any = UNSET
    postpone: bool = False
    events: tuple[Any, ...] = ()
    event_timeout: float | None = None
    state_timeout: Any = UNSET
    timeouts: Mapping[str, float | None] = {}


class Agenda:
    """Which event comes next."""

    __slots__ = ("_aside", "_front")

    def __init__(self) -> None:
        self._front: deque[Any] = deque()
        self._aside: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._front)

    def pop(self) -> Any:
        """The first event that need not be waited for."""
        return self._front.popleft()

    def push_front(self, event: Any) -> None:
        """This one before all others."""
        self._front.appendleft(event)

    def push_back(self, event: Any) -> None:
        """This one after what is known, before what is in the mailbox."""
        self._front.append(event)

    def conclude(self, event: Any, outcome: Keep | Next, *, changed: bool) -> None:
        """Take in what a callback said about ``event``."""
        if outcome.postpone:
            self._aside.append(event)
        if changed:
            self._front.extendleft(reversed(self._aside))
            self._aside.clear()
        self._front.extendleft(reversed(outcome.events))


class _Fired:
    """A timer's message to its own machine; stale unless it is still the one that was set last."""

    __slots__ = ("event", "key", "timer")

    def __init__(self, key: str, event: Any) -> None:
        self.key = key
        self.event = event
        self.timer: asyncio.TimerHandle | None = None


_EVENT, _STATE, _NAMED = "event", "state", "named:"


class StateMachine(Behaviour):
    """A server whose behaviour depends on a state; subclass it and define ``init`` and ``handle_event``."""

    state_enter = False
    """Whether every change of state, and the start, brings an ``Enter`` event first."""

    state: Hashable

    async def init(self, *args: Any, **options: Any) -> Next:
        """Prepare and return the first state. Raise ``Ignore()`` or ``StopInit(reason)`` to not start."""
        raise NotImplementedError

    async def handle_event(self, event: Any, state: Any) -> Next | Keep | Stop | None:
        """Handle one event in one state."""
        raise NotImplementedError

    # The shell.

    async def _otp_begin(self, args: tuple[Any, ...], options: dict[str, Any]) -> Next:
        self._agenda = Agenda()
        self._timers: dict[str, _Fired] = {}
        first = await self.init(*args, **options)
        if type(first) is not Next:
            raise BadReturn(f"{type(self).__name__}.init", first, "Next(state)")
        return first

    async def _otp_live(self, then: Next) -> None:
        process, agenda = self._otp_process, self._agenda
        self.state = then.state
        self._set_timers(then)
        agenda.conclude(None, then, changed=False)
        if self.state_enter:
            agenda.push_front(Enter(None))
        try:
            burst = 0
            while True:
                burst += 1
                if burst > BURST:
                    burst = 0
                    await asyncio.sleep(0)
                if agenda:
                    event = agenda.pop()
                else:
                    event = await self._from_mailbox()
                if event is None:
                    continue
                process.reductions += 1
                await self._step(event)
        finally:
            for key in list(self._timers):
                self._cancel(key)

    async def _from_mailbox(self) -> Any:
        """The next message as an event, None when it was none."""
        process = self._otp_process
        while not process.mailbox:
            if process.reason is not None:
                raise asyncio.CancelledError
            waiter = process.waiter = process.loop.create_future()
            await waiter
        if process.reason is not None:
            raise asyncio.CancelledError
        message = process.mailbox.popleft()
        kind = type(message)
        if kind is Caller or kind is RemoteCaller:
            return CallEvent(message.request, message)
        if kind is Cast:
            return message
        if kind is _Fired:
            fired: _Fired = message
            if self._timers.get(fired.key) is not fired:
                return None
            del self._timers[fired.key]
            return fired.event
        if kind is SystemRequest:
            await attend(process, message)
            return None
        if kind is Exit and message.source in (process.parent, process.pid):
            raise ExitProcess(message.reason)
        return Info(message)

    async def _step(self, event: Any) -> None:
        if type(event) is not EventTimeout and type(event) is not Enter:
            self._cancel(_EVENT)
        outcome = await self.handle_event(event, self.state)
        if type(outcome) is Stop:
            await self._otp_stop(outcome.reason)
            if type(event) is CallEvent and outcome.reply is not UNSET:
                event.caller.answer(outcome.reply)
            raise Stopped(outcome.reason)
        if outcome is None:
            return
        if type(outcome) is not Keep and type(outcome) is not Next:
            raise BadReturn(f"{type(self).__name__}.handle_event", outcome, "Next, Keep, Stop or None")
        if outcome.reply is not UNSET:
            if type(event) is not CallEvent:
                raise BadReturn(f"{type(self).__name__}.handle_event", outcome, "a reply to calls only")
            event.caller.answer(outcome.reply)
        previous = self.state
        changed = type(outcome) is Next and outcome.state != previous
        if type(outcome) is Next:
            self.state = outcome.state
        if changed:
            self._cancel(_STATE)
        self._set_timers(outcome)
        self._agenda.conclude(event, outcome, changed=changed)
        if changed and self.state_enter:
            self._agenda.push_front(Enter(previous))

    def _set_timers(self, outcome: Keep | Next) -> None:
        if outcome.event_timeout is not None:
            self._set(_EVENT, outcome.event_timeout, EventTimeout())
        if outcome.state_timeout is not UNSET:
            self._set(_STATE, outcome.state_timeout, StateTimeout())
        for name, seconds in outcome.timeouts.items():
            self._set(_NAMED + name, seconds, NamedTimeout(name))

    def _set(self, key: str, seconds: float | None, event: Any) -> None:
        self._cancel(key)
        if seconds is None:
            return
        fired = self._timers[key] = _Fired(key, event)
        fired.timer = self._otp_process.loop.call_later(seconds, self._fire, fired)

    def _fire(self, fired: _Fired) -> None:
        # Past the bound on purpose: a timer is no user's message.
        self._otp_process.mailbox.append(fired)
        self._otp_process.wake()

    def _cancel(self, key: str) -> None:
        fired = self._timers.pop(key, None)
        if fired is not None and fired.timer is not None:
            fired.timer.cancel()
