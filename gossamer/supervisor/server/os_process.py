"""Children that are operating-system processes: an embedded etcd, a Spark driver.

A server represents the program, so it is supervised like any other: when the program ends, the server
ends with ``normal`` (status 0), ``("exit_status", n)`` or ``("signal", "SIGSEGV")``, and the restart type
decides.

Rules: 1. The program leads a process group of its own; stopping sends SIGTERM to the group, and SIGKILL
after ``grace`` seconds. Give the child specification a ``shutdown`` longer than ``grace``.  2. However
the server ends, ``kill`` included, nothing of the group is left.  3. However this node ends, SIGKILL
included, the program dies too (PR_SET_PDEATHSIG).  4. Its output goes to the log line by line, long lines
truncated.

A small stub sets the death signal and then executes the program. Rejected: ``preexec_fn``, which runs Python
between fork and exec while gRPC's threads hold locks.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from gossamer.supervisor.errors import StopInit
from gossamer.supervisor.process.functions import self_pid, send, spawn_link, trap_exit
from gossamer.supervisor.server.genserver import GenServer, NoReply, Stop
from gossamer.supervisor.values import NORMAL, Exit, Pid, Reason

log = structlog.get_logger(__name__)

LINE = 4096
"""Maximum characters of an output line in the log."""

_STUB = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit(125)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class _Ended(Struct, frozen=True):
    status: int


class _Line(Struct, frozen=True):
    text: str


class OsProcess(GenServer):
    """``await OsProcess.start_link(["etcd", "--data-dir", "d"], ready="ready to serve", label="etcd")``."""

    kind = "os_process"

    pid: int
    """Operating-system pid; also the number of the process group."""

    async def init(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        pass_fds: Sequence[int] = (),
        grace: float = 5.0,
        ready: str | None = None,
        ready_timeout: float = 30.0,
    ) -> None:
        """Start ``argv``; with ``ready``, wait for a line of output that matches the pattern.

        ``pass_fds`` are inherited descriptors.

        Raises:
            StopInit: there is no such program, or it ended or timed out before it was ready.
        """
        trap_exit(True)
        self._grace = grace
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        path = None if env is None else env.get("PATH")
        if shutil.which(argv[0], path=path) is None:
            raise StopInit(("enoent", f"no program {argv[0]!r} in PATH; install it, or give its full path"))
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-c", _STUB, str(os.getpid()), *argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
        self.pid = child.pid
        self._child = child
        # If this server dies without terminate, the group dies with it.
        self.process.on_release(lambda _entry: self._signal(signal.SIGKILL))
        me, label = self_pid(), self.process.label
        pattern = None if ready is None else re.compile(ready)
        spawn_link(_read, child, me, label, pattern, label=f"{label} output")
        log.info("os_process_started", child=label, os_pid=child.pid, program=argv[0])
        if ready is not None:
            await self._until_ready(ready, ready_timeout)

    async def handle_info(self, message: object) -> NoReply | Stop | None:
        if isinstance(message, _Ended):
            self._note_end(message.status)
            return Stop(exit_reason(message.status))
        if isinstance(message, Exit | _Line):
            return None
        return await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        if self._ended.done():
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._grace):
                status = await self._child.wait()
        except TimeoutError:
            log.warning("os_process_killed", child=self.process.label, os_pid=self.pid, grace=self._grace)
            self._signal(signal.SIGKILL)
            status = await self._child.wait()
        self._note_end(status)

    # The shell.

    async def _until_ready(self, ready: str, timeout: float) -> None:
        try:
            message = await self.process.receive(timeout, lambda m: isinstance(m, _Ended | _Line))
        except TimeoutError:
            await self.terminate(NORMAL)
            raise StopInit(("timeout", f"no line with {ready!r} within {timeout:g} s")) from None
        if isinstance(message, _Ended):
            self._note_end(message.status)
            raise StopInit(exit_reason(message.status))

    def _note_end(self, status: int) -> None:
        """Handle the end of the leader: kill the rest of its group."""
        if not self._ended.done():
            self._signal(signal.SIGKILL)
            self._ended.set_result(status)
            log.info("os_process_ended", child=self.process.label, os_pid=self.pid, status=status)

    def _signal(self, number: signal.Signals) -> None:
        if self._ended.done():
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass


def exit_reason(status: int) -> Reason:
    """Return the exit reason for a program's exit status, which is negative after a signal."""
    if status == 0:
        return NORMAL
    if status > 0:
        return ("exit_status", status)
    try:
        return ("signal", signal.Signals(-status).name)
    except ValueError:
        return ("signal", str(-status))


async def _read(
    child: asyncio.subprocess.Process, server: Pid, label: str, ready: re.Pattern[str] | None
) -> None:
    """Log the output, and report when the program is ready and when it has ended."""
    stream = child.stdout
    rest = b""
    while stream is not None:
        # In chunks, not by readline, which fails on a line longer than its buffer.
        chunk = await stream.read(65536)
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk or len(rest) > LINE:
            lines, rest = [*lines, rest], b""
        for line in lines:
            text = line.decode(errors="replace").rstrip("\r")[:LINE]
            if text:
                log.info("output", child=label, line=text)
            if ready is not None and ready.search(text):
                send(server, _Line(text))
                ready = None
        if not chunk:
            break
    send(server, _Ended(await child.wait()))
