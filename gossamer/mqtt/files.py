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

__all__ = ["FileWatch", "Reloadable"]

log = structlog.get_logger(__name__)


class Reloadable(Protocol):
    """What is read from files."""

    def files(self) -> Iterable[Path]: ...

    def load(self) -> None:
        """Read them again, in any thread; raises a GossamerError and changes nothing where that fails."""


class FileWatch(GenServer):
    """Calls: ``"look"``, now. ``changed`` is called after anything was read again, ``ended`` at the end."""

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
        await self._look()
        send_after(interval, self_pid(), "tick")

    async def handle_call(self, request: Any, caller: Any) -> Reply:
        if request != "look":
            await super().handle_call(request, caller)
        await self._look()
        return Reply(None)

    async def handle_info(self, message: Any) -> None:
        if message != "tick":
            await super().handle_info(message)
            return
        await self._look()
        send_after(self._interval, self_pid(), "tick")

    async def terminate(self, reason: Reason) -> None:
        await self._ended()

    async def _look(self) -> None:
        for item in self._watched():
            now = await asyncio.to_thread(_times, list(item.files()))
            before = self._seen.get(item)
            self._seen[item] = now
            if before is None or before == now:
                continue
            try:
                await asyncio.to_thread(item.load)
            except GossamerError as error:
                log.error("reload_failed", error=str(error), kept="what was read before")
            else:
                log.info("reloaded", files=[str(file) for file in item.files()])
                self._changed()


def _times(files: list[Path]) -> list[tuple[float, int, int]]:
    found = []
    for file in files:
        try:
            stat = file.stat()
            found.append((stat.st_mtime, stat.st_size, stat.st_ino))
        except OSError:
            found.append((0.0, 0, 0))
    return found
