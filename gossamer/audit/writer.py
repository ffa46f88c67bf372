"""The process that writes what a node records: ``python -m gossamer.audit FD ROOT NODE CREATION …``.

Batches come over a socket of which this is the other end; they are journalled as they come, and a journal is
turned into Parquet when it is large or old enough, by a thread, while the next one fills. Python, Arrow and
the disc may take their time here: the broker's loop is in another process.

Rules: 1. When the node ends, however it does, the socket ends, and what has come is finished before this
process ends too; it therefore takes back the death signal with which a node's children are born.  2. A
journal left by a writer that died is finished first.  3. A disc that is slow or full makes the socket full,
and the recorder drops, counts and says so: nothing here grows.  4. Files older, or in all larger, than was
asked go, the oldest first, and only this node's.
"""

from __future__ import annotations

import ctypes
import queue
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from gossamer.audit.journal import Journal, frames_of, to_parquet

__all__ = ["Limits", "Writer", "main"]

READY = "audit writer ready"
_PR_SET_PDEATHSIG = 1


class Limits(NamedTuple):
    """When a file is finished, and when it goes; bytes and seconds, 0: never."""

    rotate_size: int = 32 * 2**20
    rotate_after: float = 60.0
    keep_size: int = 0
    keep_for: float = 0.0


class Writer:
    """Takes batches, makes files."""

    def __init__(self, root: Path, *, node: str, creation: int, limits: Limits) -> None:
        self._root = root
        self._node = node
        self._creation = creation
        self._limits = limits
        self._journals = root / ".journals" / quote(node, safe="")
        self._journals.mkdir(parents=True, exist_ok=True)
        self._number = 0
        self._journal: Journal | None = None
        self._opened = 0.0
        # Two journals may wait: a third finds the disc too slow, and blocks whoever sends.
        self._done: queue.Queue[Path | None] = queue.Queue(2)
        self._finisher = threading.Thread(target=self._finish, name="finisher")

    def run(self, stream: BinaryIO) -> None:
        """Take batches until the stream ends; then finish what there is."""
        self._finisher.start()
        for left in sorted(self._journals.glob("*.journal")):
            self._done.put(left)
        try:
            for data in frames_of(stream):
                self._take(data, time.time())
        finally:
            self._rotate()
            self._done.put(None)
            self._finisher.join()

    def _take(self, data: bytes, now: float) -> None:
        if self._journal is None:
            self._number += 1
            path = self._journals / f"{self._creation}-{time.time_ns()}-{self._number:06d}.journal"
            self._journal = Journal(path, node=self._node, creation=self._creation)
            self._opened = now
        self._journal.append(data)
        large = self._journal.size >= self._limits.rotate_size
        if large or not 0 <= now - self._opened < self._limits.rotate_after:
            self._rotate()

    def _rotate(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._done.put(self._journal.path)
            self._journal = None

    def _finish(self) -> None:
        while (path := self._done.get()) is not None:
            try:
                made = to_parquet(path, self._root)
            except OSError as error:
                # It stays, and is finished by the next writer: on a disc that has room again.
                print(f"error: {path} is not finished: {error}", file=sys.stderr, flush=True)  # noqa: T201
                continue
            if made is not None:
                self._forget(time.time())

    def _forget(self, now: float) -> None:
        """Let go of what is too old, and of the oldest of what is too much."""
        own = sorted(self._root.glob(f"day=*/hour=*/node={quote(self._node, safe='')}/*.parquet"))
        sized = [(path, path.stat()) for path in own]
        total = sum(stat.st_size for _, stat in sized)
        for path, stat in sized:
            old = self._limits.keep_for and now - stat.st_mtime > self._limits.keep_for
            much = self._limits.keep_size and total > self._limits.keep_size
            if not (old or much):
                break
            path.unlink(missing_ok=True)
            total -= stat.st_size
            for directory in (path.parent, path.parent.parent, path.parent.parent.parent):
                if any(directory.iterdir()):
                    break
                directory.rmdir()


def main(arguments: list[str]) -> None:
    """FD ROOT NODE CREATION ROTATE_SIZE ROTATE_AFTER KEEP_SIZE KEEP_FOR."""
    descriptor, root, node, creation, *limits = arguments
    # The node may be killed; what it has sent is still to be written.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)
    # Stopping is the end of the stream, never a signal in the middle of a file.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=int(descriptor)) as connection, connection.makefile("rb") as stream:
        writer = Writer(
            Path(root),
            node=node,
            creation=int(creation),
            limits=Limits(int(limits[0]), float(limits[1]), int(limits[2]), float(limits[3])),
        )
        print(READY, flush=True)  # noqa: T201 - the line that says so
        writer.run(stream)
