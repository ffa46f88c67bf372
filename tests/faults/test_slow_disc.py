"""A disc that is slow on purpose: what is written waits, in order, and for no longer than it is told."""

import time

from gossamer.faults import SlowDisc


def test_what_is_written_to_a_slow_disc_is_late_and_in_order() -> None:
    disc = SlowDisc()
    done: list[int] = []
    with disc.thread("disc") as thread:
        disc.set(0.05)
        begun = time.monotonic()
        calls = [thread.submit(done.append, number) for number in range(3)]
        for call in calls:
            call.result()
        assert time.monotonic() - begun >= 0.15
        disc.set(0.0)
        assert thread.submit(int, "7").result() == 7
    assert done == [0, 1, 2]
