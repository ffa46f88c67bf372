"""Log lines that anybody can cause are few, and say how many were left out."""

import structlog

from gossamer.log_limit import LogLimit


class Limited:
    def __init__(self, **bounds):
        self.now = 100.0
        self._limit = LogLimit(lambda: self.now, **bounds)
        self.log = structlog.get_logger()

    def write(self, times, event="refused", **fields):
        with structlog.testing.capture_logs() as lines:
            for _ in range(times):
                self._limit.write(self.log.info, event, **fields)
        return [line.get("left_out", 0) for line in lines if line["event"] == event]


def test_a_flood_is_a_few_lines_an_interval_and_a_count():
    limited = Limited(lines=3, interval=60.0)
    assert limited.write(26_953) == [0, 0, 0]
    limited.now += 59.9
    assert limited.write(7) == []
    limited.now += 0.1
    assert limited.write(5) == [26_957, 0, 0]
    limited.now += 600.0
    assert limited.write(1) == [2]
    limited.now += 600.0
    assert limited.write(1) == [0]


def test_one_kind_hides_no_other():
    limited = Limited(lines=1)
    assert limited.write(100) == [0]
    assert limited.write(100, "another") == [0]
    assert limited.write(100, kind="worse", peer="10.0.0.1") == [0]
    assert limited.write(100, kind="worse", peer="10.0.0.2") == []
