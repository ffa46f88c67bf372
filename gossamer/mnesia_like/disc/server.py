"""Process that writes to disc, with its thread: it commits the queue, batch after batch.

The queue and the handle belong to the store and outlive the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

import structlog

from gossamer.errors import GossamerError
from gossamer.mnesia_like.core import StoreCore
from gossamer.mnesia_like.disc.disc import Disc, DiscFile
from gossamer.mnesia_like.errors import CorruptTablesError, DiscError
from gossamer.supervisor import Caller, GenServer, Reason, Reply, self_pid, send_after, trap_exit

T = TypeVar("T")

# The last commit failed a while ago.
_RETRY = "retry"

log = structlog.get_logger(__name__)


class DiscHandle:
    """File and writer thread. They outlive the process: after a kill, the next process closes the file in
    the same thread, and so after the call that was still running."""

    def __init__(self, disc: Disc, *, executor: Executor | None = None, retry: float = 1.0) -> None:
        self.disc = disc
        self.retry = retry
        self.file: DiscFile | None = None
        self._own = executor is None
        self._executor = executor

    async def open(self) -> DiscFile:
        """Reopen the file."""
        await self.close()
        self.file = await self.run(self.disc.open)
        return self.file

    async def close(self) -> None:
        """Close the file, if it is open."""
        file, self.file = self.file, None
        if file is not None:
            await self.run(file.close)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function`` in the writer thread."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="gossamer-disc")
        # Through the loop, so that a virtual-time loop can run it at once.
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def abandon(self) -> None:
        """Close at once, as the kernel does for a killed process: the queue is not committed."""
        if self._own and self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
        file, self.file = self.file, None
        if file is not None:
            file.close()

    def release(self) -> None:
        """Stop the thread."""
        if self._own and self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


class DiscServer(GenServer):
    """Commits the queue, batch after batch."""

    async def init(self, core: StoreCore, handle: DiscHandle) -> None:
        self._queue = core.queue
        self._notifier = core.disc_writer
        self._handle = handle
        self._retrying = False
        # So that terminate() closes the file when the supervisor stops it.
        trap_exit(True)
        file = self._file = await handle.open()
        if file.rebuilt is not None:
            log.error("disc_copy_rebuilt", path=str(file.path), problem=file.rebuilt)
        self._notifier.attach()
        await self._commit()

    async def handle_call(self, request: Callable[[DiscFile], object], caller: Caller) -> Reply:
        """Reply with ``request(file)``, or its error."""
        try:
            return Reply(await self._handle.run(request, self._file))
        except GossamerError as error:
            return Reply(error)

    async def handle_info(self, message: object) -> None:
        match message:
            case "flush":
                self._notifier.answer()
                if not self._retrying:
                    await self._commit()
            case "retry":
                self._retrying = False
                await self._commit()
            case _:
                await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        if reason == "shutdown":
            await self._commit()
        await self._handle.close()
        self._handle.release()

    async def _commit(self) -> None:
        queue = self._queue
        batch = queue.take()
        if batch is None:
            return
        begun = self.process.loop.time()
        try:
            await self._handle.run(self._file.commit, batch)
        except CorruptTablesError:
            raise
        except DiscError as error:
            if queue.failed is None:
                log.error("disc_copy_failed", path=error.path, problem=error.problem, advice=error.advice)
            queue.fail(error, self.process.loop.time())
            self._retrying = True
            send_after(self._handle.retry, self_pid(), _RETRY)
            return
        if queue.failed is not None:
            log.info("disc_copy_recovered", path=str(self._file.path))
        queue.latency.observe(self.process.loop.time() - begun)
        queue.succeed()
