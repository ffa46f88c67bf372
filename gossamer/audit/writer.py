"""The process that writes what a node records: ``python -m gossamer.audit.writer FD ROOT NODE CREATION …``.

Batches come over a socket of which this is the other end; they are journalled as they come, and a journal is
turned into Parquet when it is large or old enough, by a thread, while the next one fills. Python, Arrow and
the disc may take their time here: the broker's loop is in another process.

Rules: 1. When the node ends, however it does, the socket ends, and what has come is finished before this
process ends too; it therefore takes back the death signal with which a node's children are born.  2. A
journal left by a writer that died is finished first.  3. A disc that is slow or full makes the socket full,
and the recorder drops, counts and says so: nothing here grows. A full disc is tried again until it has room,
or the node is gone.  4. Files older, or in all larger, than was asked go, the oldest first, and only those
that are whole and this node's.
"""

from __future__ import annotations

import ctypes
import queue
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from gossamer.audit.journal import Journal, frames_of, to_parquet

READY = "audit writer ready"
_PR_SET_PDEATHSIG = 1
_OWN = re.compile(r"\d+-\d{16}\.parquet")
"""A file that a recorder made; others in its directories are not its own to remove."""
RETRY_INTERVAL = 1.0
"""Seconds between tries on a full disc."""
LAST = 5.0
"""Seconds in which a full disc may find room once the node is gone."""


class Limits(NamedTuple):
    """Limits at which a file is finished, and at which it goes; bytes and seconds, 0: never."""

    rotate_size: int
    rotate_after: float
    keep_size: int
    keep_for: float


class Writer:
    """Takes batches, makes files."""

    def __init__(
        self,
        root: Path,
        *,
        node: str,
        creation: int,
        limits: Limits,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        self._root = root
        self._gone = gone
        self._left: list[Path] = []
        self._node = node
        self._creation = creation
        self._limits = limits
        self._journals = root / ".journals" / quote(node, safe="")
        self._journals.mkdir(parents=True, exist_ok=True)
        self._number = 0
        self._journal: Journal | None = None
        self._opened = 0.0
        # Two journals may wait: a third finds the disc too slow, and blocks the sender.
        self._done: queue.Queue[Path | None] = queue.Queue(2)
        self._lock = threading.Lock()
        self._finisher = threading.Thread(target=self._finish, name="finisher")

    def run(self, stream: BinaryIO) -> None:
        """Take batches until the stream ends; then finish what there is."""
        for part in self._own(".*.parquet.part"):
            part.unlink(missing_ok=True)
        self._left = sorted(self._journals.glob("*.journal"))
        self._finisher.start()
        try:
            for data in frames_of(stream):
                self._take(data, time.time())
        finally:
            self._rotate()
            self._done.put(None)
            self._finisher.join()

    def _take(self, data: bytes, now: float) -> None:
        self._insist(lambda: self._append(data, now))
        large = self._journal is not None and self._journal.size >= self._limits.rotate_size
        if large or not 0 <= now - self._opened < self._limits.rotate_after:
            self._rotate()

    def _append(self, data: bytes, now: float) -> None:
        if self._journal is None:
            self._number += 1
            path = self._journals / f"{self._creation}-{time.time_ns()}-{self._number:06d}.journal"
            try:
                self._journal = Journal(path, node=self._node, creation=self._creation)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            self._opened = now
        self._journal.append(data)

    def _insist(self, write: Callable[[], None]) -> None:
        """Write, however long the disc has no room: the node drops and counts meanwhile."""
        patience = LAST
        told = False
        while True:
            try:
                write()
            except OSError as error:
                if not told:
                    print(f"error: not recording: {error}", file=sys.stderr, flush=True)  # noqa: T201
                told = True
                if self._gone():
                    patience -= RETRY_INTERVAL
                    if patience <= 0:
                        return
                self._forget(time.time())
                time.sleep(RETRY_INTERVAL)
            else:
                return

    def _rotate(self) -> None:
        if self._journal is not None:
            journal, self._journal = self._journal, None
            try:
                journal.close()
            except OSError as error:
                print(f"error: {journal.path}: {error}", file=sys.stderr, flush=True)  # noqa: T201
            self._done.put(journal.path)

    def _finish(self) -> None:
        # Journals of writers that died come first; one that fails stays for the next try.
        self._left = [path for path in self._left if not self._finished(path)]
        while (path := self._done.get()) is not None:
            self._left = [left for left in (*self._left, path) if not self._finished(left)]

    def _finished(self, path: Path) -> bool:
        try:
            made = to_parquet(path, self._root)
        except OSError as error:
            print(f"error: {path} is not finished: {error}", file=sys.stderr, flush=True)  # noqa: T201
            return False
        if made is not None:
            self._forget(time.time())
        return True

    def _own(self, pattern: str) -> list[Path]:
        return sorted(self._root.glob(f"day=*/hour=*/node={quote(self._node, safe='')}/{pattern}"))

    def _forget(self, now: float) -> None:
        """Let go of what is too old, and of the oldest of what is too much."""
        with self._lock:
            sized = [(p, p.stat()) for p in self._own("*.parquet") if _OWN.fullmatch(p.name)]
            total = sum(stat.st_size for _, stat in sized)
            for path, stat in sized:
                old = self._limits.keep_for and now - stat.st_mtime > self._limits.keep_for
                much = self._limits.keep_size and total > self._limits.keep_size
                if not (old or much):
                    break
                path.unlink(missing_ok=True)
                total -= stat.st_size
                for directory in (path.parent, path.parent.parent, path.parent.parent.parent):
                    try:
                        directory.rmdir()
                    except OSError:
                        # Something else is in it.
                        break


def _is_gone(connection: socket.socket) -> bool:
    """Return whether nobody is at the other end any more."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP | select.POLLRDHUP)
    return bool(poll.poll(0))


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
            gone=lambda: _is_gone(connection),
        )
        print(READY, flush=True)  # noqa: T201 - the line that says so
        writer.run(stream)


if __name__ == "__main__":
    main(sys.argv[1:])
