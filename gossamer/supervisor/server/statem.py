"""StateMachine: a server whose behaviour depends on a state, OTP's ``gen_statem``.

One callback, ``handle_event(event, state)``, returns ``Next(state, …)``, ``Keep(…)`` (or None) or
``Stop``.

Order of events: those inserted by a callback (``events``) come first, then postponed ones after a change of
state, then the mailbox. *Postpone* defers an event until the state changes; then all postponed events are
retried, in order of arrival.

Three kinds of timeout, in seconds: the *event* timeout fires if no other event comes, and any event
cancels it; the *state* timeout belongs to the state, and a change of state cancels it; *named* timeouts
run until they are set again or cancelled (None). A cancelled timeout is never delivered, even if its
timer had fired.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from gossamer.supervisor.errors import BadReturn
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.entry import ProcessEntry
from gossamer.supervisor.process.process import BURST
from gossamer.supervisor.server.genserver import Continue, GenServer, NoReply, Stop
from gossamer.supervisor.values import Cast


class CallEvent(Struct, frozen=True):
    """A call; answer it with ``reply(caller, value)`` or ``Next(…, reply=value)``."""

    request: Any
    caller: Caller


class Info(Struct, frozen=True):
    """Any message that is neither a call nor a cast (which comes as ``Cast``)."""

    message: Any


class Internal(Struct, frozen=True):
    """Event that a callback inserted before all others."""

    content: Any


class Enter(Struct, frozen=True):
    """The state was entered, from ``previous`` (None at the start); sent if ``state_enter`` is set."""

    previous: Hashable


class EventTimeout(Struct, frozen=True):
    """The event timeout: no other event came in time."""


class StateTimeout(Struct, frozen=True):
    """The state timeout: the state lasted too long."""


class NamedTimeout(Struct, frozen=True):
    """A named timeout."""

    name: str


class _Outcome(Struct, frozen=True, kw_only=True):
    reply: object = UNSET
    postpone: bool = False
    events: tuple[object, ...] = ()
    event_timeout: float | None = None
    state_timeout: float | UnsetType | None = UNSET
    timeouts: Mapping[str, float | None] = {}


class Keep(_Outcome, frozen=True):
    """Stay in the state; options as of ``Next``."""


class Next(_Outcome, frozen=True):
    """Go to ``state``; if it is the current one, postponed events stay postponed.

    ``reply`` answers a ``CallEvent``, ``postpone`` sees this event again in the next state, ``events`` come
    before all others. Timeouts, in seconds: ``event_timeout`` ends with the next event, ``state_timeout``
    with the state, those of ``timeouts`` when set again under their name; None cancels one.
    """

    state: Hashable


class _Fired(Struct, eq=False):
    """A timer's message to its machine; stale unless it is the last one that was set."""

    key: str
    event: object
    timer: asyncio.TimerHandle | None = None


_EVENT, _STATE, _NAMED = "event", "state", "named:"


class StateMachine(GenServer):
    """Server whose behaviour depends on a state; subclass it and define ``init`` and ``handle_event``.

    With ``state_enter = True`` in the class each change of state, and the start, brings an ``Enter`` first.
    """

    state_enter = False

    state: Hashable

    async def init(self, *args: Any, **options: Any) -> Next:  # type: ignore[override]
        """Prepare and return the first state. Raise ``Ignore()`` or ``StopInit(reason)`` to not start."""
        raise NotImplementedError

    async def handle_event(self, event: Any, state: Any) -> Next | Keep | Stop | None:
        """Handle one event in one state."""
        raise NotImplementedError

    # The shell: a server that handles every message as an event.

    async def _otp_begin(self, args: tuple[object, ...], options: dict[str, object]) -> Continue:
        self._agenda: deque[object] = deque()
        self._postponed: list[object] = []
        self._timers: dict[str, _Fired] = {}
        self._otp_process.on_release(self._cancel_all)
        first = await self.init(*args, **options)
        if type(first) is not Next:
            raise BadReturn(f"{type(self).__name__}.init", first, "Next(state)")
        return Continue(first)

    async def handle_continue(self, token: Next) -> NoReply:
        self.state = token.state
        self._set_timers(token)
        self._agenda.extend(token.events)
        if self.state_enter:
            self._agenda.appendleft(Enter(None))
        return await self._otp_events()

    async def handle_call(self, request: object, caller: Caller) -> NoReply:
        return await self._otp_events(CallEvent(request, caller))

    async def handle_cast(self, request: object) -> NoReply:
        return await self._otp_events(Cast(request))

    async def handle_info(self, message: object) -> NoReply:
        if type(message) is not _Fired:
            return await self._otp_events(Info(message))
        if self._timers.get(message.key) is not message:
            return NoReply()
        del self._timers[message.key]
        return await self._otp_events(message.event)

    async def _otp_events(self, *events: object) -> NoReply:
        """Handle an event of the mailbox, and all inserted and postponed events after it."""
        agenda, burst = self._agenda, 0
        agenda.extend(events)
        while agenda:
            burst += 1
            if burst > BURST:
                burst = 0
                await asyncio.sleep(0)
            await self._otp_step(agenda.popleft())
        return NoReply()

    async def _otp_step(self, event: object) -> None:
        where = f"{type(self).__name__}.handle_event"
        if type(event) is not EventTimeout and type(event) is not Enter:
            self._cancel(_EVENT)
        outcome = await self.handle_event(event, self.state)
        caller = event.caller if type(event) is CallEvent else None
        if type(outcome) is Stop:
            await self._otp_halt(caller, outcome)
        if outcome is None:
            return
        if type(outcome) is not Keep and type(outcome) is not Next:
            raise BadReturn(where, outcome, "Next, Keep, Stop or None")
        if outcome.reply is not UNSET:
            if caller is None:
                raise BadReturn(where, outcome, "a reply to calls only")
            caller.answer(outcome.reply)
        previous = self.state
        changed = type(outcome) is Next and outcome.state != previous
        if type(outcome) is Next:
            self.state = outcome.state
        if changed:
            self._cancel(_STATE)
        self._set_timers(outcome)
        if outcome.postpone:
            self._postponed.append(event)
        if changed:
            self._agenda.extendleft(reversed(self._postponed))
            self._postponed.clear()
        self._agenda.extendleft(reversed(outcome.events))
        if changed and self.state_enter:
            self._agenda.appendleft(Enter(previous))

    def _set_timers(self, outcome: Keep | Next) -> None:
        if outcome.event_timeout is not None:
            self._set(_EVENT, outcome.event_timeout, EventTimeout())
        if outcome.state_timeout is not UNSET:
            self._set(_STATE, outcome.state_timeout, StateTimeout())
        for name, seconds in outcome.timeouts.items():
            self._set(_NAMED + name, seconds, NamedTimeout(name))

    def _set(self, key: str, seconds: float | None, event: object) -> None:
        self._cancel(key)
        if seconds is None:
            return
        fired = self._timers[key] = _Fired(key, event)
        fired.timer = self._otp_process.loop.call_later(seconds, self._fire, fired)

    def _fire(self, fired: _Fired) -> None:
        # Past the bound on purpose: a timer is not a user's message.
        self._otp_process.mailbox.append(fired)
        self._otp_process.wake()

    def _cancel(self, key: str) -> None:
        fired = self._timers.pop(key, None)
        if fired is not None and fired.timer is not None:
            fired.timer.cancel()

    def _cancel_all(self, entry: ProcessEntry) -> None:
        for key in list(self._timers):
            self._cancel(key)
