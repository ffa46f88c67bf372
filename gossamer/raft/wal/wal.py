"""Write-ahead log of a node: all of its groups in one row of segments, and one sync for all of a turn.

A segment begins with the hard state and the mark of every group, so old segments are needed for entries
alone. They go when no group has entries there; a group that has had some there for ``keep_segments`` is
written again, whole.

Rules: 1. A write returns when the disc has it; what need not be synced goes with the next that must.  2. A
write that a full disc refuses is taken back, and may be tried again. After any other error nothing is written
until the log is opened again, since what the disc holds is not known.  3. A torn last frame is cut when the
log is opened; anything else that does not fit is refused, never skipped.  4. Every frame says which segment
is the oldest: one that is missing is not taken for one that was removed.

Rejected: a log a group, since a turn of a hundred groups would be a hundred syncs; writing commit indexes
without a sync, since then more than the last frame could be torn.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence

import msgspec

from gossamer.raft.errors import DamagedLogError, LogWriteError
from gossamer.raft.wal.disc import Directory, File
from gossamer.raft.wal.frames import Frames, seal
from gossamer.raft.wal.records import Batch, Record, Stored

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NAME = re.compile(r"([0-9a-f]{16})\.wal")
MAX_PENDING = 1024
"""Records that wait for a write that is synced."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batch).decode


class WriteAheadLog:
    """The log, opened. Blocks on the disc; one thread at a time."""

    def __init__(
        self, directory: Directory, *, segment_bytes: int = 64 * 2**20, keep_segments: int = 4
    ) -> None:
        """Read what is there, and cut what was torn.

        Raises:
            DamagedLogError: something in it is not what was written; nothing was changed.
            OSError: the disc cannot be read, or not be written.
        """
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._keep_segments = keep_segments
        self.groups: dict[int, Stored] = {}
        self._pending: list[Record] = []
        self._broken: LogWriteError | None = None
        self._oldest = self._segment = 1
        self._offset = 0
        self._file: File | None = None
        self._recover()

    @property
    def segments(self) -> int:
        """Number of segments."""
        return self._segment - self._oldest + 1

    def close(self) -> None:
        """Write what waits, and give the file back; what cannot be written now need not be."""
        try:
            if self._pending and self._broken is None:
                self.write((), sync=True)
        except LogWriteError:
            pass
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- writing

    def has_room(self, records: Sequence[Record]) -> bool:
        """Return whether a write of these that is not synced stays in memory, and so does not block."""
        return len(self._pending) + len(records) <= MAX_PENDING

    def write(self, records: Sequence[Record], *, sync: bool) -> None:
        """Write a turn; with ``sync`` the disc has it afterwards, and all that was written before.

        Raises:
            LogWriteError: it has not; ``full`` says whether the same may be tried again.
        """
        if self._broken is not None:
            raise self._broken
        batch = [*self._pending, *records]
        if not sync and self.has_room(records):
            self._pending = batch
            self._take(records)
            return
        self._append(batch)
        self._pending = []
        self._take(records)
        if self._offset >= self._segment_bytes:
            self._roll()

    def _take(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.removed:
                self.groups.pop(record.group, None)
            else:
                stored = self.groups.setdefault(record.group, Stored())
                stored.apply(record, self._segment)
                stored.check(record.group, self._name(self._segment))

    def _append(self, records: Sequence[Record], oldest: int = 0) -> None:
        assert self._file is not None  # noqa: S101 - recovery opened it
        batch = Batch(oldest or self._oldest, records)
        frame = seal(_encode(batch), self._segment, self._offset)
        try:
            self._file.write(self._offset, frame)
        except OSError as error:
            self._take_back(error)
        try:
            self._file.sync()
        except OSError as error:
            raise self._break(error) from error
        self._offset += len(frame)

    def _take_back(self, error: OSError) -> None:
        assert self._file is not None  # noqa: S101 - the caller has it
        if error.errno not in _FULL:
            raise self._break(error) from error
        try:
            # What was written of the frame would hide those behind it.
            self._file.truncate(self._offset)
        except OSError as second:
            raise self._break(second) from second
        raise LogWriteError(self._name(self._segment), error, full=True) from error

    def _break(self, error: OSError) -> LogWriteError:
        self._broken = LogWriteError(self._name(self._segment), error, full=False)
        return self._broken

    # -- segments

    def _roll(self) -> None:
        """Begin the next segment; where the disc is full, after a later write."""
        number = self._segment + 1
        heads = [Record(group, s.hard, s.mark, replica=s.replica) for group, s in sorted(self.groups.items())]
        frame = seal(_encode(Batch(self._oldest, heads)), number, 0)
        file = None
        try:
            file = self._directory.open(self._name(number))
            file.write(0, frame)
            file.sync()
            self._directory.sync()
        except OSError as error:
            if error.errno not in _FULL:
                raise self._break(error) from error
            self._drop_draft(file, number)
            return
        assert self._file is not None  # noqa: S101 - recovery opened it
        self._file.close()
        self._file, self._segment, self._offset = file, number, len(frame)
        try:
            self._clean()
        except LogWriteError as error:
            if not error.full:
                raise
        except OSError as error:
            raise self._break(error) from error

    def _drop_draft(self, file: File | None, number: int) -> None:
        try:
            if file is not None:
                file.close()
                self._directory.remove(self._name(number))
                self._directory.sync()
        except OSError as error:
            raise self._break(error) from error

    def _clean(self) -> None:
        """Remove segments that no group has entries in."""
        border = self._segment - self._keep_segments
        for group, stored in sorted(self.groups.items()):
            if stored.oldest is not None and stored.oldest <= border:
                entries = list(stored.entries)
                whole = Record(group, stored.hard, stored.mark, entries, whole=True, replica=stored.replica)
                self._append([whole])
                stored.apply(whole, self._segment)
        needed = [stored.oldest for stored in self.groups.values() if stored.oldest is not None]
        oldest = min([*needed, self._segment])
        if oldest > self._oldest:
            self._append([], oldest)
            before, self._oldest = self._oldest, oldest
            for number in range(before, oldest):
                self._directory.remove(self._name(number))

    @staticmethod
    def _name(number: int) -> str:
        return f"{number:016x}.wal"

    # -- reading

    def _recover(self) -> None:
        """Read all segments, oldest first; see rule 3."""
        found = sorted(
            int(match[1], 16) for name in self._directory.names() if (match := _NAME.fullmatch(name))
        )
        if not found:
            self._cut(1, (0, b""))
            self._directory.sync()
            self._append([])
            return
        last = found[-1]
        batches, tail = self._read(last, last=True)
        draft = 0
        if not batches and last - 1 in found:
            # The process ended while it began this segment; the one before was whole by then.
            draft, last = last, last - 1
            batches, tail = self._read(last, last=False)
        if batches:
            self._oldest = batches[-1].oldest
        elif last > 1:
            raise DamagedLogError(self._name(last), got="no frame", expected="the frame that begins it")
        for number in range(self._oldest, last):
            if number not in found:
                expected = f"segments {self._oldest:x} to {last:x}"
                raise DamagedLogError(self._name(number), got="no such segment", expected=expected)
            self._replay(number, self._read(number, last=False)[0])
        self._replay(last, batches)
        for group, stored in self.groups.items():
            stored.check(group, self._name(last))
        for number in found:
            if number < self._oldest or number == draft:
                self._directory.remove(self._name(number))
        # A draft that came back after more was written would make this segment one that must be whole.
        self._directory.sync()
        self._cut(last, tail)
        if not batches:
            self._append([])

    def _read(self, number: int, *, last: bool) -> tuple[list[Batch], tuple[int, bytes]]:
        """Return the batches of a segment, and where its last frame is."""
        name = self._name(number)
        data = self._directory.read(name)
        frames = Frames(data, number, name, last=last)
        batches = [_decode(body) for body in frames]
        # Before anything is cut: what a disc reads from the wrong place once, it reads right again.
        if (frames.torn or not batches) and self._directory.read(name) != data:
            raise DamagedLogError(name, got="one content, then another", expected="the same twice")
        return batches, (frames.last_start, data[frames.last_start : frames.end])

    def _replay(self, number: int, batches: Iterable[Batch]) -> None:
        for batch in batches:
            for record in batch.records:
                if record.removed:
                    self.groups.pop(record.group, None)
                else:
                    stored = self.groups.setdefault(record.group, Stored())
                    stored.apply(record, number)

    def _cut(self, number: int, tail: tuple[int, bytes]) -> None:
        """Go on behind the last frame of a segment, without what was torn there."""
        start, frame = tail
        self._file = self._directory.open(self._name(number))
        self._file.truncate(start + len(frame))
        # It may have come from memory: the process ended before its sync, or that failed and the system takes
        # it for written. Written once more, it is.
        self._file.write(start, frame)
        self._file.sync()
        self._segment, self._offset = number, start + len(frame)
