"""State machine of a range: its rows in order, and which batch of each writer it had last.

Rules: 1. A batch is done once (``raft.batches``); one of another version than the range's is refused.  2. A
write is done whole or not at all.  3. A range holds :data:`MAX_RANGE` bytes; what would go beyond is refused.
4. What a range has done for writers goes where its keys go: a batch that comes again, at the range that has
its keys by now, is answered as it was.
"""

from __future__ import annotations

import msgspec

from gossamer.basekv.changes import (
    PART,
    TOGETHER,
    Absorb,
    Change,
    Expect,
    Merging,
    Phase,
    Release,
    Retire,
    Seal,
    Sealed,
    Settle,
    Split,
    Unseal,
    border_of,
    decoded,
)
from gossamer.basekv.rows import RowStore, Stored
from gossamer.basekv.values import (
    MAX_RANGE,
    Answer,
    Busy,
    Delete,
    DeleteRange,
    Done,
    Get,
    GetPart,
    Middle,
    Moved,
    Part,
    Put,
    PutShared,
    RangeInfo,
    Result,
    Ruled,
    Scan,
    Value,
    Verdict,
    Write,
    decode_batch,
    decode_question,
    encode,
    kind_of,
)
from gossamer.raft import Born, Writers

BEGUN = 32
"""Number of ranges that began with keys of a range of which it keeps in mind how they began."""
_DONE, _BUSY, _OVER = Ruled(Verdict.DONE), Ruled(Verdict.BUSY), Ruled(Verdict.OVER)


class _Image(msgspec.Struct, frozen=True, array_like=True):
    range: RangeInfo
    rows: Stored
    writers: list[tuple[bytes, int, list[Result]]]
    values: list[bytes] = []
    begun: list[RangeInfo] = []
    merging: Merging | None = None
    sealed: Sealed | None = None
    unsealed: bytes = b""


_image = msgspec.msgpack.Decoder(_Image).decode


class RangeMachine:
    """Implements :class:`gossamer.raft.StateMachine`; results and answers are encoded ``Answer``."""

    released = False

    def __init__(self, info: RangeInfo) -> None:
        self.range = info
        self.rows = RowStore()
        self.merging: Merging | None = None
        """The merge in which it takes over its neighbour on the right."""
        self.sealed: Sealed | None = None
        """The merge in which its neighbour on the left takes it over."""
        self.writes = self.splits = self.merges = 0
        """Numbers of what this replica has done, which are no part of the state."""
        self._begun: list[RangeInfo] = []
        self._unsealed = b""
        """The last merge that was undone."""
        self._writers: Writers[Result] = Writers()
        self._whole = b""
        """What a merge is to carry, once it is asked for."""

    def apply(self, index: int, request: bytes) -> object:
        """Do a batch, or a change of the range."""
        change = decoded(request)
        if isinstance(change, Split):
            return self._split(change)
        if change is not None:
            return encode(self._change(change))
        batch = decode_batch(request)
        try:
            results = self._writers.known(batch.writer, batch.number)
        except LookupError:
            return encode(Done([], late=True))
        if results is None:
            if refusal := self._refusal(batch.version):
                return encode(refusal)
            results = [self._write(write, batch.values) for write in batch.writes]
            self._writers.done(batch.writer, batch.number, results)
            self.writes += len(results)
        return encode(Done(results))

    def _refusal(self, version: int) -> Busy | Moved | None:
        """Return what is answered in place of doing something, by whoever knows this version."""
        if self.sealed is not None:
            return Busy() if self.sealed.by is None else Moved(self.sealed.by)
        return None if version == self.range.version else Moved(self.range, self._begun)

    def _write(self, write: Write, values: list[bytes]) -> Result:
        rows = self.rows
        if any(rows.get(one.key) != one.value for one in write.expected):
            return Result.UNEXPECTED
        added = rows.added(write, values)
        if added and rows.bytes + added > MAX_RANGE:
            return Result.FULL
        for operation in write.operations:
            match operation:
                case Put(key, value):
                    rows.put(key, value, share=False)
                case PutShared(key, place):
                    rows.put(key, values[place], share=True)
                case Delete(key):
                    rows.remove(key)
                case DeleteRange(start, end):
                    for key in list(rows.keys(start, end)):
                        rows.remove(key)
        return Result.DONE

    # -- changes

    def _split(self, split: Split) -> object:
        info, key = self.range, split.key
        if refusal := self._refusal(split.version):
            return encode(refusal)
        if self.merging is not None:
            return encode(_BUSY)
        if not (info.start < key and info.has(key) and len(key) <= TOGETHER):
            return encode(Ruled(Verdict.NOT_INSIDE))
        version = info.version + 1
        left = RangeInfo(info.number, info.start, key, version)
        right = RangeInfo(split.number, key, info.end, version)
        rows, values = self.rows.image(key)
        state = encode(_Image(right, rows, self._writers.rows(), values, [left]))
        self.rows.cut(key)
        self.range, self._begun = left, [right, *self._begun][:BEGUN]
        self.splits += 1
        return Born(encode(Moved(left, [right])), right.number, kind_of(right.number), state)

    def _change(self, change: Change) -> Answer:
        match change:
            case Expect():
                return self._expect(change)
            case Seal():
                return self._seal(change)
            case Absorb(merge) | Release(merge) | Settle(merge):
                if self.merging is None or self.merging.merge != merge:
                    return _OVER
                return self._go_on(self.merging, change)
            case Unseal(merge):
                return self._unseal(merge)
            case Retire(merge, by):
                if self.sealed is not None and self.sealed.merge == merge:
                    self.sealed.by, self._whole = by, b""
                    self.rows = RowStore()
                    return _DONE
        return _OVER

    def _expect(self, asked: Expect) -> Answer:
        if self.merging is not None:
            return _DONE if self.merging.merge == asked.merge else _BUSY
        if refusal := self._refusal(asked.version):
            return refusal
        if self.range.end != asked.start:
            return Ruled(Verdict.NOT_NEIGHBOURS)
        self.merging = Merging(asked.merge, asked.number, asked.right_version)
        return _DONE

    def _seal(self, seal: Seal) -> Answer:
        if self.sealed is not None and self.sealed.merge == seal.merge:
            return _DONE
        if seal.merge == self._unsealed:
            return _OVER
        if refusal := self._refusal(seal.version):
            return refusal
        if self.merging is not None:
            return _BUSY
        self.sealed = Sealed(seal.merge, seal.into)
        return _DONE

    def _unseal(self, merge: bytes) -> Answer:
        sealed = self.sealed
        if sealed is not None and (sealed.merge != merge or sealed.by is not None):
            return _DONE
        self.sealed, self._whole = None, b""
        if self._unsealed != merge:
            # A request to seal it that is still on its way names the version before.
            self._unsealed = merge
            self.range = msgspec.structs.replace(self.range, version=self.range.version + 1)
        return _DONE

    def _go_on(self, merging: Merging, change: Absorb | Release | Settle) -> Answer:
        match change:
            case Absorb(_, position, data, last):
                if merging.phase is not Phase.EXPECTS:
                    return Moved(self.range) if merging.phase is Phase.HAS else _OVER
                if position != len(merging.data):
                    return Ruled(Verdict.GOES_ON, len(merging.data))
                merging.data += data
                return self._absorb(merging) if last else Ruled(Verdict.GOES_ON, len(merging.data))
            case Release():
                if merging.phase is Phase.HAS:
                    return Moved(self.range)
                merging.phase, merging.data = Phase.RELEASED, bytearray()
            case Settle():
                if merging.phase is Phase.EXPECTS:
                    return _BUSY
                self.merging = None
        return _DONE

    def _absorb(self, merging: Merging) -> Answer:
        image, merging.data = _image(bytes(merging.data)), bytearray()
        there = image.range
        size = sum(map(len, image.values))
        size += sum(len(key) + (0 if isinstance(value, int) else len(value)) for key, value in image.rows)
        if self.rows.bytes + size > MAX_RANGE:
            merging.phase = Phase.RELEASED
            return Ruled(Verdict.TOO_LARGE)
        self.rows.take(image.rows, image.values)
        self._writers.absorb(image.writers)
        version = max(self.range.version, there.version) + 1
        self.range = RangeInfo(self.range.number, self.range.start, there.end, version)
        self._begun = [*self._begun, *image.begun][:BEGUN]
        merging.phase = Phase.HAS
        self.merges += 1
        return Moved(self.range)

    # -- questions

    def read(self, question: bytes) -> object:
        """Answer a question."""
        asked = decode_question(question)
        if isinstance(asked, GetPart):
            return encode(self._part(asked.merge, asked.position))
        if refusal := self._refusal(asked.version):
            return encode(refusal)
        match asked:
            case Get(_, key):
                return encode(Value(self.rows.get(key)))
            case Scan(_, start, end, limit):
                return encode(self.rows.page(start, end, limit))
            case Middle():
                return encode(Value(self._middle()))

    def _middle(self) -> bytes | None:
        found = self.rows.middle()
        border = None if found is None else border_of(found)
        return border if border is not None and border > self.range.start else None

    def _part(self, merge: bytes, position: int) -> Answer:
        if self.sealed is None or self.sealed.merge != merge or self.sealed.by is not None:
            return _OVER
        self._whole = self._whole or self._imaged()
        return Part(self._whole[position : position + PART], position + PART >= len(self._whole))

    def upkeep(self, leading_for: float, in_sync: int | None) -> list[bytes]:
        """Return nothing: no request is due by itself."""
        return []

    def snapshot(self) -> bytes:
        """Return the whole state."""
        return self._imaged(merging=self.merging, sealed=self.sealed)

    def _imaged(self, *, merging: Merging | None = None, sealed: Sealed | None = None) -> bytes:
        rows, values = self.rows.image()
        writers = self._writers.rows()
        return encode(_Image(self.range, rows, writers, values, self._begun, merging, sealed, self._unsealed))

    def restore(self, data: bytes) -> None:
        """Take over a snapshot."""
        image = _image(data)
        self.range, self._begun = image.range, image.begun
        self.merging, self.sealed, self._unsealed = image.merging, image.sealed, image.unsealed
        self._whole = b""
        self.rows = RowStore()
        self.rows.restore(image.rows, image.values)
        self._writers = Writers(image.writers)
