"""Runs of background jobs, drills and audits: each is a directory with all that is known of it.

::

    DIR/ID/run.json   the request, its author and time, and the state; written by the node
    DIR/ID/out, err   what the program printed
    DIR/ID/…          its results

Rules: 1. One of a kind runs at a time.  2. What is kept is bounded in number: a new run takes the place of
the oldest. Directories that others put there are shown and never removed for that.  3. A run recorded as
active that is not the current one ended with an earlier creation of the node.  4. An ID is the name of a
directory, and leads nowhere else.  5. Disc I/O happens in threads.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import structlog
from pydantic import ConfigDict, ValidationError

from gossamer.api.jobs.processes import BROKEN, Program, Programs, Stop
from gossamer.api.model.base import Value
from gossamer.api.model.forms import RUN_ID
from gossamer.errors import NotFoundError, UnavailableError, UsageError, mismatch
from gossamer.files import replace_file
from gossamer.supervisor import Reason

log = structlog.get_logger(__name__)

STATE = "run.json"
MOST_LISTED = 200
"""Directories that a list looks at, the latest."""
_WORDS = 600
_REPORT = 7 * 1024 * 1024
"""Bytes of the longest page that is passed on."""

State = Literal["running", "kept", "broken", "failed", "stopped", "interrupted", "elsewhere"]


class RunBusyError(UsageError):
    """A run of this kind is active already."""

    def __init__(self, *, what: str, id: str) -> None:  # noqa: A002 - the word of the API
        self.id = id
        super().__init__(f"{what}: {id} is running, expected none: one at a time; wait, or stop it")


class Run(Value):
    """One run, as its directory records it."""

    model_config = ConfigDict(extra="ignore")

    id: str
    state: State
    """kept and broken: the promises; stopped: on request; interrupted: the node ended; elsewhere: the
    directory was put there by another program."""
    order: Mapping[str, object]
    by: str
    """Name of the caller that requested it."""
    began_at: float
    ended_at: float
    """0 while it runs."""
    says: str
    """Why it failed."""


def page_at(directory: Path) -> float:
    """Return when the report page in ``directory`` was written, 0 without one."""
    try:
        return (directory / "report.html").stat().st_mtime
    except OSError:
        return 0.0


class Runs:
    """Runs of one kind. ``what`` is their name in errors; ``most`` are kept.

    ``made_at`` returns the creation time of other programs' results in a directory, 0 if there are none.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        what: str,
        most: int,
        now: Callable[[], float],
        programs: Programs,
        made_at: Callable[[Path], float] = page_at,
        lacks: Callable[[], UnavailableError | None] = lambda: None,
    ) -> None:
        self.what = what
        self.lacks = lacks
        """Return what this machine lacks to run a job, None for nothing."""
        self._made_at = made_at
        # Programs have a directory of their own to work in.
        self._root = None if directory is None else directory.absolute()
        self._most = most
        self._now = now
        self._programs = programs
        self._lock = asyncio.Lock()
        self._run: Run | None = None
        self._stop: Stop | None = None
        self._stopping = False

    @property
    def running(self) -> str:
        """The ID of the active run, empty without one."""
        return "" if self._run is None else self._run.id

    async def start(self, order: dict[str, object], *, by: str, program: Program) -> Run:
        """Start a run.

        Raises:
            RunBusyError: another run is active.
            UnavailableError: something is missing for it, or there is nowhere to keep it.
            StartFailed: the program cannot be started.
        """
        async with self._lock:
            if self._run is not None:
                raise RunBusyError(what=self.what, id=self._run.id)
            if (missing := self.lacks()) is not None:
                raise missing
            now = self._now()
            stamp = f"{datetime.fromtimestamp(now, tz=UTC):%Y%m%dT%H%M%S}"
            run = Run(
                id=f"{stamp}-{secrets.token_hex(3)}",
                state="running",
                order=order,
                by=by,
                began_at=round(now, 3),
                ended_at=0.0,
                says="",
            )
            directory = await self._make(run, program)
            self._run, self._stopping = run, False
            try:
                self._stop = await self._programs.start(
                    program, directory, lambda reason: self._ended(run, reason), self.what
                )
            except BaseException:
                self._run = None
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
                raise
            return run

    async def all(self) -> list[Run]:
        """Return all runs, the newest first."""
        return await asyncio.to_thread(self._list)

    async def get(self, id: str) -> Run:  # noqa: A002
        """Return a run.

        Raises:
            NotFoundError: none has this ID.
        """
        found = await asyncio.to_thread(self._find, id)
        if found is None:
            raise mismatch(NotFoundError, self.what, id, "the id of one that is listed")
        return found

    async def remove(self, id: str, *, running: bool = False) -> Run:  # noqa: A002
        """Stop the active run, or delete one that has ended with its files; return it as it was.

        ``running``: the caller means to stop it, so a run that has just ended is kept.

        Raises:
            NotFoundError: none has this ID.
        """
        run = await self.get(id)
        if run.id == self.running:
            if self._stop is not None:
                self._stopping = True
                await self._stop()
            return await self.get(id)
        if not running:
            await asyncio.to_thread(shutil.rmtree, self.directory(id), ignore_errors=True)
        return run

    async def read(self, id: str, name: str) -> bytes | None:  # noqa: A002
        """Return a file of a run, None if it is missing or too long."""

        def read(file: Path) -> bytes | None:
            try:
                return file.read_bytes() if file.stat().st_size <= _REPORT else None
            except OSError:
                return None

        return await asyncio.to_thread(read, self.directory(id) / name)

    async def report(self, id: str) -> bytes:  # noqa: A002
        """Return the report page of a run.

        Raises:
            NotFoundError: none has this ID, or it has none.
        """
        run = await self.get(id)
        page = await self.read(id, "report.html")
        if page is None:
            why = "it is running" if run.state == "running" else "it made none, or it is too long"
            raise NotFoundError(f"{self.what}: {id} has no report: {why}")
        return page

    def directory(self, id: str) -> Path:  # noqa: A002
        """Return the directory of a run."""
        if self._root is None or re.fullmatch(RUN_ID, id) is None:
            raise mismatch(NotFoundError, self.what, id, "the id of one that is listed")
        return self._root / id

    # -- in threads

    def _list(self) -> list[Run]:
        if self._root is None:
            return []
        try:
            names = sorted((entry.name for entry in os.scandir(self._root) if entry.is_dir()), reverse=True)
        except FileNotFoundError:
            return []
        found = [self._find(name) for name in names[:MOST_LISTED]]
        return sorted((run for run in found if run), key=lambda run: run.began_at, reverse=True)

    def _find(self, id: str) -> Run | None:  # noqa: A002
        try:
            directory = self.directory(id)
            run = Run.model_validate_json((directory / STATE).read_bytes())
        except NotFoundError:
            return None
        except (OSError, ValidationError):
            at = round(self._made_at(directory), 3)
            if not at:
                return None
            return Run(id=id, state="elsewhere", order={}, by="", began_at=at, ended_at=at, says="")
        changed: dict[str, object] = {"id": id}
        if run.state == "running" and run.id != self.running:
            changed |= {"state": "interrupted", "says": "the node ended while it ran"}
        return run.model_copy(update=changed)

    async def _make(self, run: Run, program: Program) -> Path:
        if self._root is None:
            raise self._nowhere("this node keeps nothing on disc")
        directory = self.directory(run.id)
        try:
            await asyncio.to_thread(self._prepare, directory, run, program.files)
        except OSError as error:
            raise self._nowhere(f"{directory}: {error.strerror or error}") from error
        return directory

    def _nowhere(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"{self.what}: {why}; expected a data directory that the node may write to (node.data_dir)"
        )

    def _prepare(self, directory: Path, run: Run, files: Mapping[str, bytes]) -> None:
        directory.mkdir(parents=True, mode=0o700)
        for name, content in files.items():
            (directory / name).write_bytes(content)
        _write(directory, run)
        ours = [old for old in self._list() if old.state != "elsewhere" and old.id != run.id]
        for old in ours[self._most - 1 :]:
            shutil.rmtree(directory.parent / old.id, ignore_errors=True)

    # -- its end

    def _ended(self, run: Run, reason: Reason) -> None:
        """Record the end, in a callback of the loop: the file is small, and the next run must find it."""
        state, says = _judged(reason, self.directory(run.id), stopping=self._stopping)
        over = run.model_copy(update={"state": state, "says": says, "ended_at": round(self._now(), 3)})
        self._run = self._stop = None
        try:
            _write(self.directory(run.id), over)
        except OSError as error:
            log.warning("run_not_written", run=run.id, error=str(error))
        log.info("run_ended", what=self.what, run=run.id, state=state, says=says)


def _judged(reason: Reason, directory: Path, *, stopping: bool) -> tuple[State, str]:
    match reason:
        case "normal":
            return "kept", ""
        case ("exit_status", code) if code == BROKEN:
            return "broken", ""
    if stopping:
        return "stopped", ""
    if reason in ("shutdown", "killed"):
        return "interrupted", "the node ended while it ran"
    return "failed", _last_words(directory / "err") or f"the program ended: {reason}"


def _last_words(file: Path) -> str:
    """Return the last error that a program printed."""
    try:
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - 8192))
            text = lines.read().decode(errors="replace")
    except OSError:
        return ""
    _, mark, said = text.rpartition("error: ")
    printed = [line for line in text.splitlines() if line.strip()]
    return (said if mark else printed[-1] if printed else "").strip()[:_WORDS]


def _write(directory: Path, run: Run) -> None:
    replace_file(directory / STATE, run.model_dump_json().encode(), durable=False)
