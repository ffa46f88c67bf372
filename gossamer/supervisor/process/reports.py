"""What a crash report says beyond the reason: what the process was doing, what it held, where it went wrong.

Rules: 1. All of it is found when a process has crashed; nothing is written down before, for that would cost
every message. The message that was being handled still stands in the frame of the loop that took it, and the
traceback leads there.  2. State and message are ``shown``: one line, without what is named like a secret.
3. The frames of the framework in front of the user's own are left out of the traceback; when there are no
others, as after a wrong return value, they stay.
"""

from __future__ import annotations

import asyncio
import traceback
from itertools import islice
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.entry import Entry, current
from gossamer.supervisor.rendering import is_secret, shown
from gossamer.supervisor.values import Cast, Crash, Reason, describe, is_clean

log = structlog.get_logger(__name__)

LOOPS = {"_otp_live": "message", "_otp_step": "event"}
"""Functions of behaviours that take messages, and the local variable that is the one in hand."""

ATTRIBUTES = 12
LINE = 600


def report_crash(entry: Entry, reason: Reason, error: BaseException | None = None) -> None:
    """Write the crash report of a process or a port, unless its end is an orderly one."""
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
        # A reason may bring the traceback of another process, or of another node.
        traceback=brought if error is None else _crash_text(error),
    )


def where_is(task: asyncio.Task[None]) -> str:
    """The line of code at which a task waits, innermost first, three deep."""
    # A task gives the frames of its own stack only; the awaited coroutines lead further in.
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
    """The traceback of ``error``, from the user's first frame on."""
    start = error.__traceback__
    while start is not None and "gossamer/supervisor/" in start.tb_frame.f_code.co_filename:
        start = start.tb_next
    return "".join(traceback.format_exception(type(error), error, start or error.__traceback__))


def _handling(error: BaseException | None) -> str:
    """The message during which ``error`` was raised, empty where there was none."""
    said, step = "", None if error is None else error.__traceback__
    while step is not None:
        local = LOOPS.get(step.tb_frame.f_code.co_name)
        if local is not None:
            said = _said(step.tb_frame.f_locals.get(local))
        step = step.tb_next
    return said


def _state_of(behaviour: object | None) -> str:
    """The attributes of a server, shortened."""
    if behaviour is None:
        return ""
    held = {key: value for key, value in vars(behaviour).items() if not key.startswith("_otp_")}
    parts = [
        f"{key}={'***' if is_secret(key) else shown(value)}"
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
        return f"call{by}: {shown(message.request)}"
    if isinstance(message, Cast):
        return f"cast: {shown(message.request)}"
    return shown(message)


def log_process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the pid and the name of the running process to a log event; a processor for structlog."""
    entry = current.get(None)
    if entry is not None:
        event["process"] = str(entry.pid)
        event["process_name"] = entry.name or entry.label
    return event
