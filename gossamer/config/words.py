"""Formatting of durations and sizes; ``units`` parses the result.

Apart from ``units``, which needs the schema's machinery: a command that only prints starts without that.
"""

from __future__ import annotations

import math

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of durations."""


def format_duration(seconds: float) -> str:
    """The shortest exact spelling: ``300`` is ``5m``, ``0.5`` is ``500ms``, ``90`` is ``90s``."""
    if seconds == 0:
        return "0s"
    for unit in ("d", "h", "m", "s"):
        if seconds >= SECONDS[unit] and (seconds / SECONDS[unit]).is_integer():
            return f"{seconds / SECONDS[unit]:.0f}{unit}"
    milliseconds = seconds * 1000
    return f"{milliseconds:.0f}ms" if math.isclose(milliseconds, round(milliseconds)) else f"{seconds:f}s"


def format_size(size: int) -> str:
    """The shortest exact spelling: 1048576 is ``1MiB``, 1000 is ``1000``."""
    for unit, scale in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return str(size)
