"""A node's part of the disc: one write-ahead log for all groups, and a file for each snapshot.

Blocks; one thread at a time. Rule: a snapshot is on disc before the record that relies on it, and goes after
the record that replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gossamer.raft.errors import DamagedLogError
from gossamer.raft.values import Snapshot
from gossamer.raft.wal.disc import Directory
from gossamer.raft.wal.records import Record, Stored
from gossamer.raft.wal.wal import WriteAheadLog

_SUFFIX = ".snapshot"


def _name(group: int, index: int) -> str:
    return f"{group:016x}-{index}{_SUFFIX}"


class GroupDisc:
    """Log and snapshots in a directory, opened."""

    def __init__(self, directory: Directory) -> None:
        """Read the log.

        Raises:
            DamagedLogError: it is not what was written.
            OSError: the disc cannot be read, or not be written.
        """
        self._directory = directory
        self._log = WriteAheadLog(directory)

    @property
    def groups(self) -> dict[int, Stored]:
        """What the disc has of each group."""
        return self._log.groups

    def write(
        self, records: Sequence[Record], snapshots: Iterable[tuple[int, int, bytes]] = (), *, sync: bool
    ) -> None:
        """Store snapshots, as group, index and data, then a turn's records; synced with ``sync``.

        Raises:
            LogWriteError: see :meth:`WriteAheadLog.write`.
            OSError: a snapshot was not stored, and no record written.
        """
        for group, index, data in snapshots:
            file = self._directory.open(_name(group, index))
            try:
                file.truncate(0)
                file.write(0, data)
                file.sync()
            finally:
                file.close()
            self._directory.sync()
        if records:
            self._log.write(records, sync=sync)

    def has_room(self, records: Sequence[Record]) -> bool:
        """:meth:`WriteAheadLog.has_room`."""
        return self._log.has_room(records)

    def snapshot(self, group: int, index: int) -> bytes:
        """Return a snapshot.

        Raises:
            DamagedLogError: it is not there.
            OSError: it cannot be read.
        """
        name = _name(group, index)
        try:
            return self._directory.read(name)
        except FileNotFoundError:
            raise DamagedLogError(name, got="no such file", expected="the snapshot of the mark") from None

    def clean(self, in_use: Iterable[tuple[int, Snapshot]]) -> None:
        """Remove the snapshots that no group uses. Raises OSError."""
        kept = {_name(group, snapshot.index) for group, snapshot in in_use}
        for name in self._directory.names():
            if name.endswith(_SUFFIX) and name not in kept:
                self._directory.remove(name)

    def close(self) -> None:
        """Write what waits, and close the log."""
        self._log.close()
