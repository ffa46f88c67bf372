"""Crash reports: reason, message being handled, state, and location of the error.

Rules: 1. Everything is collected after the crash; nothing is recorded before, since that would slow down
every message. The message being handled is still in the frame of the server's loop, which the traceback leads
to.  2. State and message are ``rendered``: one line, without fields named like a secret.
3. Framework frames before the user's first one are left out of the traceback; if there are no others, as
after a wrong return value, they stay.
"""

from __future__ import annotations

import asyncio
import traceback
from itertools import islice
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.entry import ProcessEntry, current
from gossamer.supervisor.rendering import is_secret, rendered
from gossamer.supervisor.values import Cast, Crash, Reason, describe, is_clean

log = structlog.get_logger(__name__)

LOOPS = {"_otp_live": "message", "_otp_step": "event"}
"""Message loops of behaviours, each with the local variable of the current message."""

ATTRIBUTES = 12
LINE = 600


def report_crash(entry: ProcessEntry, reason: Reason, error: BaseException | None = None) -> None:
    """Log the crash report of a process or a port, unless it exits in order."""
    if is_clean(reason):
        return
    brought = reason.traceback if isinstance(reason, Crash) else ""
    log.error(
        "crash",
        pid=str(entry.pid),
        name=entry.name,
        label=entry.label,
        parent=None if entry.parent is None else str(entry.parent),
        reason=describe(reason),
        mailbox=entry.mailbox_length(),
        reductions=entry.reductions,
        handling=_handling(error),
        state=_state_of(entry.behaviour),
        # A reason may carry the traceback of another process, or of another node.
        traceback=brought if error is None else _crash_text(error),
    )


def where_is(task: asyncio.Task[None]) -> str:
    """Return the lines of code at which a task waits, innermost first, three deep."""
    # A task has only the frames of its own stack; the awaited coroutines lead further in.
    lines: list[str] = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            break
        lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return " < ".join(reversed(lines[-3:]))


def _crash_text(error: BaseException) -> str:
    """Format the traceback of ``error``, from the user's first frame on."""
    start = error.__traceback__
    while start is not None and "gossamer/supervisor/" in start.tb_frame.f_code.co_filename:
        start = start.tb_next
    return "".join(traceback.format_exception(type(error), error, start or error.__traceback__))


def _handling(error: BaseException | None) -> str:
    """Return the message during which ``error`` was raised; empty if there was none."""
    said, step = "", None if error is None else error.__traceback__
    while step is not None:
        local = LOOPS.get(step.tb_frame.f_code.co_name)
        if local is not None:
            said = _said(step.tb_frame.f_locals.get(local))
        step = step.tb_next
    return said


def _state_of(behaviour: object | None) -> str:
    """Format the attributes of a server, shortened."""
    if behaviour is None:
        return ""
    held = {key: value for key, value in vars(behaviour).items() if not key.startswith("_otp_")}
    parts = [
        f"{key}={'***' if is_secret(key) else rendered(value)}"
        for key, value in islice(held.items(), ATTRIBUTES)
    ]
    if len(held) > ATTRIBUTES:
        parts.append(f"… {len(held) - ATTRIBUTES} more")
    line = ", ".join(parts)
    return line if len(line) <= LINE else line[: LINE - 1] + "…"


def _said(message: object) -> str:
    if message is None:
        return ""
    if isinstance(message, Caller):
        by = "" if message.pid is None else f" from {message.pid}"
        return f"call{by}: {rendered(message.request)}"
    if isinstance(message, Cast):
        return f"cast: {rendered(message.request)}"
    return rendered(message)


def log_process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the pid and the name of the running process to a log event; a processor for structlog."""
    entry = current.get(None)
    if entry is not None:
        event["process"] = str(entry.pid)
        event["process_name"] = entry.name or entry.label
    return event
