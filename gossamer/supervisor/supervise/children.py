"""One child: how it is started, stopped, and told of; what all kinds of supervisors share.

Rules: 1. Whatever goes wrong in a start function is the child's failure.  2. Stopping watches for the end by
the table row, not by a link, so a child that unlinked cannot hang its supervisor.  3. A child that hangs in
its start does not keep the tree above it from stopping.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import Any

from gossamer.supervisor.errors import Ignore, NotAsync, StartFailed
from gossamer.supervisor.process.functions import call
from gossamer.supervisor.process.process import Process, reason_of
from gossamer.supervisor.process.runtime import Runtime
from gossamer.supervisor.supervise.policy import Failed
from gossamer.supervisor.supervise.spec import ChildSpec, Shutdown
from gossamer.supervisor.values import (
    KILL,
    KILLED,
    NOPROC,
    NORMAL,
    SHUTDOWN,
    Destination,
    Exit,
    Pid,
    Reason,
    is_clean,
)

__all__ = [
    "ask",
    "expected_end",
    "flush_exit",
    "killed_late",
    "offender",
    "reap",
    "start_one",
    "start_unless_told",
]


async def ask(supervisor: Destination, request: object, timeout: float | None) -> Any:
    """Call; an exception for an answer is raised."""
    answer = await call(supervisor, request, timeout)
    if isinstance(answer, Exception):
        raise answer
    return answer


async def start_one(spec: ChildSpec) -> Pid | Failed | None:
    """Run a start function; whatever goes wrong in it is the child's failure."""
    try:
        started: object = spec.start()
        if not inspect.isawaitable(started):
            raise NotAsync.of(spec.start, started)
        pid: object = await started
    except Ignore:
        return None
    except StartFailed as error:
        return Failed(error.reason)
    except Exception as error:  # noqa: BLE001 - a start function is the user's code
        return Failed(reason_of(error))
    if pid is not None and not isinstance(pid, Pid):
        return Failed(
            ("bad_return_value", f"start of {spec.id} gave {type(pid).__name__}, expected a Pid or None")
        )
    return pid


async def start_unless_told(process: Process, spec: ChildSpec) -> Pid | Failed | None:
    """As ``start_one``, but give up once the parent of the supervisor ``process`` tells it to end.

    A child that hangs in its start must not keep the tree above it from stopping. The order to end stays in
    the mailbox and is obeyed next.
    """
    task, told = process.task, False

    def interrupt() -> None:
        nonlocal told
        if not told:
            told = True
            task.cancel()

    process.interrupt = interrupt
    try:
        return await start_one(spec)
    except asyncio.CancelledError:
        if not told or process.reason is not None:
            raise
        task.uncancel()
        return Failed((SHUTDOWN, "told to end while it started"))
    finally:
        process.interrupt = None


async def reap(runtime: Runtime, pid: Pid, shutdown: Shutdown | None) -> Reason:
    """Stop a process as ``shutdown`` says; gives back the reason with which it ended."""
    done = runtime.join(pid)
    if shutdown == "brutal_kill":
        runtime.exit(pid, KILL)
        return await done
    runtime.exit(pid, SHUTDOWN)
    if not done.done():
        await asyncio.wait([done], timeout=None if isinstance(shutdown, str) else shutdown)
        if not done.done():
            runtime.exit(pid, KILL)
    return await done


def flush_exit(process: Any, pid: Pid) -> None:
    """Forget the EXIT of a child that was stopped on purpose."""
    mailbox = process.mailbox
    for index, message in enumerate(mailbox):
        if type(message) is Exit and message.source == pid:
            del mailbox[index]
            return


def offender(spec: ChildSpec, pid: object, restarts: int) -> dict[str, object]:
    """A child as reports show it."""
    start = spec.start.func if isinstance(spec.start, partial) else spec.start
    return {
        "pid": None if pid is None else str(pid),
        "id": spec.id,
        "start": _named(start),
        "restart": spec.restart,
        "significant": spec.significant,
        "shutdown": spec.shutdown,
        "type": spec.type,
        "restarts": restarts,
    }


def _named(start: Any) -> str:
    """A start function by its name, ``Ledger.start_link``."""
    owner = getattr(start, "__self__", None)
    if isinstance(owner, type):
        return f"{owner.__qualname__}.{start.__name__}"
    return str(getattr(start, "__qualname__", type(start).__qualname__))


def killed_late(context: str, reason: Reason, spec: ChildSpec) -> dict[str, str]:
    """What to say of a child that had to be killed."""
    if context != "shutdown_error" or reason != KILLED:
        return {}
    if not isinstance(spec.shutdown, int | float):
        return {"advice": "somebody killed it while it was stopping"}
    late = f"it did not end within its shutdown time of {spec.shutdown:g} s and was killed"
    return {"advice": f"{late}; see what its terminate() waits for, or give it more"}


def expected_end(reason: Reason, spec: ChildSpec) -> bool:
    """True where a stopped child ended as its specification lets one hope."""
    if reason == NOPROC:
        return True
    if spec.shutdown == "brutal_kill":
        return reason == KILLED
    if reason == SHUTDOWN:
        return True
    return spec.restart != "permanent" and (reason == NORMAL or is_clean(reason))
