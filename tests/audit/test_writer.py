"""The writer on a disc that is full, and in a directory that is not its alone; clocks that disagree."""

import errno
import os

import pytest

from gossamer.audit import writer as module
from gossamer.audit.journal import Batch, Journal, frame
from gossamer.audit.watch import ahead
from gossamer.audit.writer import Limits, Writer

LIMITS = Limits(rotate_size=32 * 2**20, rotate_after=60.0, keep_size=0, keep_for=0.0)


@pytest.fixture
def full_disc(monkeypatch):
    """Appending fails so many times."""
    monkeypatch.setattr(module, "RETRY_INTERVAL", 0.0)
    left = [3]
    append = Journal.append

    def fail(journal, data):
        if journal.size and left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(journal, data)

    monkeypatch.setattr(Journal, "append", fail)
    return left


def test_a_batch_waits_for_room_on_a_full_disc(tmp_path, full_disc):
    writer = Writer(tmp_path, node="n1", creation=1, limits=LIMITS)
    batch = frame(Batch(0, [(1, 0, 2, 3)]))
    writer._take(batch, 0.0)
    assert full_disc == [0]
    writer._journal.close()
    [journal] = tmp_path.rglob("*.journal")
    assert journal.read_bytes().endswith(batch)


def test_a_full_disc_does_not_keep_a_writer_whose_node_is_gone(tmp_path, full_disc, monkeypatch):
    monkeypatch.setattr(module, "LAST", 0.0)
    full_disc[0] = 10**9
    writer = Writer(tmp_path, node="n1", creation=1, limits=LIMITS, gone=lambda: True)
    writer._take(frame(Batch(0, [(1, 0, 2, 3)])), 0.0)
    writer._journal.close()


def test_what_no_recorder_made_is_left_alone(tmp_path):
    directory = tmp_path / "day=2026-01-01" / "hour=00" / "node=n1"
    directory.mkdir(parents=True)
    (directory / "mine.parquet").write_bytes(b"x")
    (directory / f"1-{1:016}.parquet").write_bytes(b"x")
    Writer(tmp_path, node="n1", creation=1, limits=LIMITS._replace(keep_for=1.0))._forget(4e9)
    assert [path.name for path in directory.iterdir()] == ["mine.parquet"]


def test_the_quickest_answer_says_how_far_a_clock_is_ahead():
    assert ahead([(10.0, 5.0, 14.0), (20.0, 17.5, 20.2), (30.0, 20.0, 39.0)]) == pytest.approx(2.6)


def test_a_clock_that_may_agree_is_not_called_off_for_a_slow_way():
    """The way there took longer than the way back: at one machine, that is all that half of it says."""
    assert ahead([(10.0, 10.9, 11.0), (20.0, 20.001, 20.3)]) == 0
