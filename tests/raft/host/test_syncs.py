"""When a disc is slow: not for one sync, nor for a few of many; while one does not end; and no more later."""

import pytest

from gossamer.raft import DiscThread
from gossamer.raft.host.syncs import IDLE, SLOW_SYNC, SyncTimes
from gossamer.raft.wal.records import Record


def run(times, seconds, *, at=100.0, pause=0.1):
    """Syncs that take so long, one after the other; when the last has ended."""
    for one in seconds:
        times.begin(at)
        times.end(at + one)
        at += one + pause
    return at - pause


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [
        ([0.001] * 300, False),
        ([0.001] * 100 + [1.5], False),
        (([0.001] * 9 + [0.3]) * 30, False),
        ([0.15] * 60, True),
        ([0.3, 0.05] * 30, True),
        ([2.0], True),
    ],
)
def test_the_mean_of_the_latest_says_it(seconds, slow):
    times = SyncTimes()
    end = run(times, seconds)
    assert (times.slow_since(end) is not None) is slow
    assert times.latency.count == len(seconds)
    assert times.latency.sum == pytest.approx(sum(seconds))


def test_it_is_slow_since_the_sync_that_made_it_so_until_it_is_fast_again():
    times = SyncTimes()
    end = run(times, [0.3] * 10)
    since = times.slow_since(end)
    assert 100 < since < end
    end = run(times, [0.09] * 60, at=end)
    # Hardly better.
    assert times.slow_since(end) == since
    assert times.slow_since(run(times, [0.001] * 30, at=end)) is None


def test_one_that_does_not_end_counts_while_it_lasts():
    times = SyncTimes()
    end = run(times, [0.001] * 20)
    times.begin(end)
    assert times.slow_since(end + SLOW_SYNC / 2) is None
    assert times.slow_since(end + 60) == end
    assert times.text(end + 60).startswith("it takes 60 s")
    times.end(end + 60)
    assert times.slow_since(end + 60) == end


def test_where_nothing_is_written_any_more_what_was_says_nothing():
    times = SyncTimes()
    end = run(times, [3.0] * 3)
    assert times.slow_since(end + IDLE - 1) is not None
    assert times.slow_since(end + IDLE) is None
    assert times.slow_since(run(times, [0.001], at=end + IDLE)) is None


async def test_the_disc_of_a_node_reports_what_is_synced_and_no_snapshots(tmp_path):
    """Also where a write fails."""
    times, clock = SyncTimes(), iter(range(100))
    disc = DiscThread(tmp_path / "raft", syncs=times, now=lambda: next(clock))
    await disc.open()
    removed = [Record(7, removed=True)]
    await disc.write(removed, sync=True)
    await disc.write(removed, sync=False)
    await disc.write(removed, [(7, 1, b"snapshot")], sync=True)
    assert (times.latency.count, times.latency.sum) == (1, 1)
    await disc.close()
    with pytest.raises(RuntimeError):
        await disc.write(removed, sync=True)
