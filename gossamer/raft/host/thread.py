"""The disc of a node's groups, in a thread of its own. It outlives the server: after a kill the next one
closes the files in the same thread, and so after the write that was still going on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from gossamer.raft.errors import DamagedLogError
from gossamer.raft.host.disc import GroupDisc
from gossamer.raft.host.syncs import SyncTimes
from gossamer.raft.values import Snapshot
from gossamer.raft.wal.disc import DiscDirectory
from gossamer.raft.wal.records import Record, Stored

T = TypeVar("T")

log = structlog.get_logger(__name__)


class DiscThread:
    """Log and snapshots in a directory; errors are those of :class:`GroupDisc`.

    ``executor`` runs the calls (None: a thread of its own). ``syncs`` gets the times of writes that are
    synced, by ``now``, which is called in the thread.
    """

    def __init__(
        self,
        path: Path,
        executor: Executor | None = None,
        *,
        syncs: SyncTimes | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._syncs, self._now = syncs or SyncTimes(), now
        self._disc: GroupDisc | None = None
        self._own = executor is None
        self._executor = executor

    @property
    def groups(self) -> Mapping[int, Stored]:
        """What the disc has of each group."""
        return {} if self._disc is None else self._disc.groups

    async def open(self) -> Mapping[int, Stored]:
        """Open it again, and return what it has.

        Raises:
            DamagedLogError: it is not what was written.
        """
        await self._run(self._open)
        return self.groups

    def _open(self) -> None:
        self._close()
        self._disc = GroupDisc(DiscDirectory(self._path))

    async def put_aside(self, error: DamagedLogError) -> None:
        """Keep what is there under another name, and begin with nothing."""

        def move() -> Path:
            self._close()
            aside = self._aside()
            self._path.rename(aside)
            self._open()
            return aside

        log.error("raft_log_damaged", error=str(error), put_aside=str(await self._run(move)))

    def _aside(self) -> Path:
        number = 1
        while (aside := self._path.with_name(f"{self._path.name}.damaged-{number}")).exists():
            number += 1
        return aside

    async def write(
        self, records: Sequence[Record], snapshots: Iterable[tuple[int, int, bytes]] = (), *, sync: bool
    ) -> None:
        """:meth:`GroupDisc.write`."""
        if records and not (sync or snapshots) and self._opened.has_room(records):
            # What stays in memory needs no thread; nothing else is done here meanwhile.
            self._opened.write(records, sync=False)
        elif records or snapshots:
            write = partial(self._opened.write, records, snapshots, sync=sync)
            # A snapshot may take long on any disc, and is no turn's.
            await self._run(partial(self._timed, write) if sync and not snapshots else write)

    def _timed(self, write: Callable[[], None]) -> None:
        self._syncs.begin(self._now())
        try:
            write()
        finally:
            self._syncs.end(self._now())

    async def snapshot(self, group: int, index: int) -> bytes:
        """:meth:`GroupDisc.snapshot`."""
        return await self._run(partial(self._opened.snapshot, group, index))

    async def clean(self, in_use: Sequence[tuple[int, Snapshot]]) -> None:
        """:meth:`GroupDisc.clean`."""
        await self._run(partial(self._opened.clean, in_use))

    async def close(self) -> None:
        """Write what waits, close the files and end the thread."""
        await self._run(self._close)
        if self._own and self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    def _close(self) -> None:
        disc, self._disc = self._disc, None
        if disc is not None:
            disc.close()

    @property
    def _opened(self) -> GroupDisc:
        if self._disc is None:
            raise RuntimeError("the log is not open")
        return self._disc

    async def _run(self, function: Callable[[], T]) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="gossamer-raft")
        # Through the loop, so that a virtual-time loop can run it at once.
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)
