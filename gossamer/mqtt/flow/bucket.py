"""A token bucket: how fast something may go on. Pure: callers pass ``now``."""

__all__ = ["Bucket"]


class Bucket:
    """A token bucket: ``rate`` a second, one second's worth at once."""

    __slots__ = ("_at", "_level", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._level = rate
        self._at: float | None = None

    def take(self, count: float, now: float) -> float:
        """Take ``count``, into debt if need be; the seconds until the debt is paid."""
        if self._at is not None:
            self._level = min(self.rate, self._level + (now - self._at) * self.rate)
        self._at = now
        self._level -= count
        return max(0.0, -self._level / self.rate)

    def admit(self, now: float) -> bool:
        """Take one if it is there."""
        if self.take(0, now) or self._level < 1:
            return False
        self._level -= 1
        return True
