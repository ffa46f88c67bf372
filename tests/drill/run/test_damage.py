"""A bit that flips in a log of replicas is found when it is read, at the place that the drill names."""

from pathlib import Path

import pytest

from gossamer.drill.run.executor import flip_bit
from gossamer.drill.stage.backend import BackEndError
from gossamer.raft import DamagedLogError, DiscDirectory, Entry, Record, WriteAheadLog


@pytest.mark.parametrize("size", [5, 600, 4000])
def test_a_flipped_bit_is_refused_where_it_is(tmp_path: Path, size: int) -> None:
    log = WriteAheadLog(DiscDirectory(tmp_path))
    for index in range(1, 10):
        log.write([Record(1, None, None, [Entry(index, 1, b"x" * size)])], sync=True)
    log.close()
    segment, place = flip_bit(tmp_path)
    with pytest.raises(DamagedLogError) as caught:
        WriteAheadLog(DiscDirectory(tmp_path))
    found = caught.value.where.removeprefix(f"{segment}, byte ")
    # What is named is the frame, which may begin some sectors before.
    assert place - size - 512 < int(found) <= place


def test_what_has_no_log_cannot_be_damaged(tmp_path: Path) -> None:
    with pytest.raises(BackEndError, match="has no log that could be damaged"):
        flip_bit(tmp_path)
