"""The write-ahead log on a disc that does everything wrong: nothing that was acknowledged is lost unseen."""

import copy
from random import Random

import pytest

from gossamer.raft import (
    DamagedLogError,
    DiscDirectory,
    Entry,
    HardState,
    LogWriteError,
    Mark,
    Membership,
    Record,
    Snapshot,
    WriteAheadLog,
)
from gossamer.raft.wal.frames import SECTOR, Frames, crc32c, seal
from gossamer.testing.raft.disc import CrashedError, SimDisc

SMALL = {"segment_bytes": 4096, "keep_segments": 2}
NAME = f"{1:016x}.wal"


def entries(first, last, term=1, size=20):
    return [Entry(index, term, bytes([index % 251 + 1]) * size) for index in range(first, last + 1)]


def state(log):
    """What is there of each group, apart from where it lies."""
    return {group: (s.hard, s.mark, list(s.entries)) for group, s in sorted(log.groups.items())}


def a_life(seed):
    """Turns of two groups that append, replace and take snapshots; and a third that goes."""
    rng = Random(seed)
    last, base, term = {1: 0, 2: 0}, {1: 0, 2: 0}, 1
    yield [Record(3, HardState(1), None, entries(1, 2))]
    for turn in range(25):
        records = []
        for group in (1, 2):
            first = last[group] + 1 - (rng.random() < 0.2 and last[group] > base[group] + 3)
            term += first <= last[group]
            last[group] = first + rng.randrange(4)
            size = rng.choice((5, 300, 1200))
            records.append(
                Record(group, HardState(term, 1, base[group]), None, entries(first, last[group], term, size))
            )
            if rng.random() < 0.15:
                base[group] = last[group] - 1
                mark = Mark(Snapshot(base[group], term, Membership((1, 2))), base[group], term)
                records.append(Record(group, mark=mark))
        if turn == 15:
            records.append(Record(3, removed=True))
        yield records


def lived(disc, seed=1, **options):
    """A life on a disc; the state after each turn that was acknowledged, and the log."""
    log = WriteAheadLog(disc, **SMALL | options)
    states = [state(log)]
    for records in a_life(seed):
        log.write(records, sync=True)
        states.append(copy.deepcopy(state(log)))
    return states, log


def test_the_checksum_is_castagnolis():
    """Of RFC 3720, appendix B.4."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")


def test_what_was_written_is_read_again():
    disc = SimDisc(Random(1))
    states, log = lived(disc)
    assert state(WriteAheadLog(disc, **SMALL)) == states[-1]
    assert log.segments <= 4
    assert 3 not in log.groups


def test_on_a_real_disc(tmp_path):
    directory = DiscDirectory(tmp_path / "raft")
    states, log = lived(directory)
    log.close()
    again = WriteAheadLog(directory, **SMALL)
    assert state(again) == states[-1]
    again.close()
    name = directory.names()[-1]
    with (tmp_path / "raft" / name).open("ab") as file:
        file.write(b"x")
    torn = WriteAheadLog(directory, **SMALL)
    assert state(torn) == states[-1]
    torn.close()
    with (tmp_path / "raft" / name).open("r+b") as file:
        file.seek(14)
        file.write(b"?")
    with pytest.raises(DamagedLogError, match=f"{name}, byte 0: got a body that does not fit its checksum"):
        WriteAheadLog(directory, **SMALL)


def test_an_index_without_sync_goes_with_the_next_that_must():
    disc = SimDisc(Random(1))
    log = WriteAheadLog(disc)
    log.write([Record(1, HardState(1, 1, 0), None, entries(1, 3))], sync=True)
    before = disc.operations
    log.write([Record(1, HardState(1, 1, 3))], sync=False)
    assert disc.operations == before
    assert WriteAheadLog(disc).groups[1].hard.commit == 0
    log.write([Record(1, None, None, entries(4, 4))], sync=True)
    assert WriteAheadLog(disc).groups[1].hard.commit == 3
    log.write([Record(1, HardState(1, 1, 4))], sync=False)
    log.close()
    assert WriteAheadLog(disc).groups[1].hard.commit == 4


def operations_of_a_life():
    disc = SimDisc(Random(1))
    lived(disc)
    return disc.operations


@pytest.mark.parametrize("power", [True, False], ids=["power", "kill"])
def test_a_crash_at_every_operation_keeps_what_was_acknowledged(power):
    """And of the turn that was under way all of it or nothing; again if it crashes while it recovers."""
    states, _ = lived(SimDisc(Random(1)))
    for crash_in in range(operations_of_a_life()):
        disc = SimDisc(Random(f"{power}/{crash_in}"))
        disc.crash_in = crash_in
        done = [states[0]]
        with pytest.raises(CrashedError):
            log = WriteAheadLog(disc, **SMALL)
            for records in a_life(1):
                log.write(records, sync=True)
                done.append(state(log))
        for again in (disc.rng.randrange(6), None):
            if power:
                disc.lose_power()
            disc.crash_in = again
            try:
                log = WriteAheadLog(disc, **SMALL)
            except CrashedError:
                continue
            possible = states[len(done) - 1 : len(done) + 1]
            assert state(log) in possible, (crash_in, again)
            disc.crash_in = None


def test_every_flipped_bit_is_found_or_does_no_harm():
    """Wherever it is, in the last frame too: nothing is cut that was acknowledged."""
    clean = SimDisc(Random(1))
    states, _ = lived(clean)
    found = 0
    for luck in range(400):
        disc = copy.deepcopy(clean)
        disc.rng = Random(luck)
        where = disc.flip()
        try:
            assert state(WriteAheadLog(disc, **SMALL)) == states[-1], where
        except DamagedLogError as error:
            found += error.where.partition(",")[0] == where.partition(" ")[0]
    assert found > 200


def test_what_is_read_from_the_wrong_place_is_found():
    clean = SimDisc(Random(1))
    states, _ = lived(clean)
    for luck in range(300):
        disc = copy.deepcopy(clean)
        disc.rng = Random(luck)
        disc.misreads = True
        try:
            assert state(WriteAheadLog(disc, **SMALL)) == states[-1]
        except DamagedLogError:
            assert state(WriteAheadLog(disc, **SMALL)) == states[-1]


def test_a_full_disc_takes_the_same_turn_once_there_is_room():
    states, _ = lived(SimDisc(Random(1)))
    for room in range(0, 30_000, 700):
        disc = SimDisc(Random(room))
        log = WriteAheadLog(disc, **SMALL)
        disc.room = room
        for records, after in zip(a_life(1), states[1:], strict=True):
            try:
                log.write(records, sync=True)
            except LogWriteError:
                assert state(WriteAheadLog(copy.deepcopy(disc), **SMALL)) in states
                disc.room = None
                log.write(records, sync=True)
            assert state(log) == after
        assert state(WriteAheadLog(disc, **SMALL)) == states[-1]


def test_after_a_sync_that_failed_nothing_is_written_and_a_restart_knows_what_there_is():
    """The system takes the frame for written; recovery writes it again, so that the power may go then."""
    disc = SimDisc(Random(1))
    log = WriteAheadLog(disc)
    log.write([Record(1, HardState(1), None, entries(1, 3))], sync=True)
    disc.fails_sync = True
    for records in ([Record(1, None, None, entries(4, 4))], [Record(1, None, None, entries(4, 5))]):
        with pytest.raises(LogWriteError, match="restart this node") as raised:
            log.write(records, sync=True)
        assert not raised.value.full
    again = WriteAheadLog(disc)
    last = len(again.groups[1].entries)
    disc.lose_power()
    assert len(WriteAheadLog(disc).groups[1].entries) == last == 4


def test_a_segment_that_is_missing_is_not_taken_for_one_that_was_removed():
    disc = SimDisc(Random(1))
    _, log = lived(disc, keep_segments=9)
    first, second, *_ = disc.names()
    assert log.segments > 2
    disc.remove(second)
    with pytest.raises(DamagedLogError, match=f"{second}: got no such segment"):
        WriteAheadLog(disc, **SMALL)
    assert first in disc.names()


def test_entries_that_do_not_follow_are_refused():
    log = WriteAheadLog(SimDisc(Random(1)))
    log.write([Record(1, None, None, entries(1, 3))], sync=True)
    with pytest.raises(DamagedLogError, match="group 1: got entries from 5 on, expected entries from 1 on"):
        log.write([Record(1, None, None, entries(5, 5))], sync=True)


def test_a_group_that_rests_does_not_hold_old_segments():
    disc = SimDisc(Random(1))
    log = WriteAheadLog(disc, **SMALL)
    log.write([Record(9, HardState(1), None, entries(1, 2))], sync=True)
    for index in range(1, 60):
        log.write([Record(1, HardState(1), None, entries(index, index, size=600))], sync=True)
        mark = Mark(Snapshot(index, 1, Membership((1,))), index, 1)
        log.write([Record(1, mark=mark)], sync=False)
    assert log.segments <= SMALL["keep_segments"] + 1
    assert WriteAheadLog(disc, **SMALL).groups[9].entries == entries(1, 2)


@pytest.mark.parametrize("body", [b"", b"a", bytes(5000), b"a" * (SECTOR - 13), b"a" + bytes(600) + b"b"])
def test_no_sector_of_a_frame_is_zeros(body):
    frame = seal(body, 1, SECTOR)
    assert len(frame) % SECTOR == 0
    assert all(any(frame[at : at + SECTOR]) for at in range(0, len(frame), SECTOR))
    two = seal(b"first", 1, 0) + frame
    assert list(Frames(two, 1, NAME, last=True)) == [b"first", body]


def test_only_the_last_frame_may_be_torn():
    data = b"".join(seal(b"x" * 1200, 1, at * 3 * SECTOR) for at in range(3))
    blank = bytes(SECTOR)
    for sector in range(9):
        torn = data[: sector * SECTOR] + blank + data[(sector + 1) * SECTOR :]
        if sector < 6:
            with pytest.raises(DamagedLogError, match=f"byte {sector // 3 * 3 * SECTOR}:"):
                list(Frames(torn, 1, NAME, last=True))
        else:
            assert len(list(Frames(torn, 1, NAME, last=True))) == 2
            with pytest.raises(DamagedLogError):
                list(Frames(torn, 1, NAME, last=False))
    for size in range(len(data)):
        frames = Frames(data[:size], 1, NAME, last=True)
        assert len(list(frames)) == size // (3 * SECTOR)
