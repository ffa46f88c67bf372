"""Files that may change while the node runs: password and ACL files, certificates.

One process looks at their times now and then, in a thread, and reads again what is new. A file that cannot
be read leaves what was read before in force, and says so: an editor's half-written file locks nobody out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import structlog

from gossamer.errors import GossamerError
from gossamer.supervisor import GenServer, Reason, Reply, self_pid, send_after, trap_exit

log = structlog.get_logger(__name__)


class Reloadable(Protocol):
    """Settings that are read from files."""

    def files(self) -> Iterable[Path]: ...

    def load(self) -> None:
        """Read them again, in any thread; raises a GossamerError and changes nothing where that fails."""


class FileWatch(GenServer):
    """Calls: ``"look"``, now; the answer is a list of why files are refused. ``changed`` is called after
    anything was read again, ``ended`` at the end."""

    async def init(
        self,
        watched: Callable[[], Iterable[Reloadable]],
        interval: float,
        changed: Callable[[], None],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        # So that it gets to call ``ended``.
        trap_exit(True)
        self._ended = ended
        self._watched = watched
        self._interval = interval
        self._changed = changed
        self._seen: dict[Reloadable, list[tuple[float, int, int]]] = {}
        self._refused: dict[Reloadable, str] = {}
        """What could not be read the last time that it changed, and why."""
        await self._look()
        send_after(interval, self_pid(), "tick")

    async def handle_call(self, request: object, caller: Any) -> Reply:
        if request != "look":
            await super().handle_call(request, caller)
        return Reply(await self._look(refused_too=True))

    async def handle_info(self, message: object) -> None:
        if message != "tick":
            await super().handle_info(message)
            return
        await self._look()
        send_after(self._interval, self_pid(), "tick")

    async def terminate(self, reason: Reason) -> None:
        await self._ended()

    async def _look(self, *, refused_too: bool = False) -> list[str]:
        """Read what is new, and ``refused_too`` what was refused before; why files are refused now."""
        for item in self._watched():
            now = await asyncio.to_thread(_times, list(item.files()))
            before = self._seen.get(item)
            self._seen[item] = now
            if before is None or (before == now and not (refused_too and item in self._refused)):
                continue
            try:
                await asyncio.to_thread(item.load)
            except GossamerError as error:
                self._refused[item] = str(error)
                log.error("reload_failed", error=str(error), kept="what was read before")
            else:
                self._refused.pop(item, None)
                log.info("reloaded", files=[str(file) for file in item.files()])
                self._changed()
        return list(self._refused.values())


def _times(files: list[Path]) -> list[tuple[float, int, int]]:
    found = []
    for file in files:
        try:
            stat = file.stat()
            found.append((stat.st_mtime, stat.st_size, stat.st_ino))
        except OSError:
            found.append((0.0, 0, 0))
    return found
