"""Moments as people write them: ``2026-01-31T07:00``, ``2026-01-31``, ``6h``, ``yesterday``, ``now``.

Rule: what names no zone is UTC, like all times of a recording.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from gossamer.errors import WrongValueError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment_of(text: str, *, option: str, now: datetime) -> datetime:
    """The moment that ``text`` names.

    Raises:
        WrongValueError: it names none.
    """
    wanted = text.strip().lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if wanted in named:
        return named[wanted]
    ago = re.fullmatch(r"(\d+)\s*([smhdw])(\s+ago)?", wanted)
    if ago:
        return now - timedelta(**{_UNITS[ago.group(2)]: int(ago.group(1))})
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise WrongValueError(
            f"{option}: got {text!r}, expected a time such as 2026-01-31T07:00 or 2026-01-31 (UTC where no "
            "zone is given), how long ago, such as 90m, 6h or 2d, or one of now, today, yesterday"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def span_of(begin: str | None, end: str | None, *, now: datetime) -> tuple[datetime | None, datetime | None]:
    """[begin, end) of what ``--from`` and ``--to`` say; None where they say nothing.

    Raises:
        WrongValueError: one cannot be read, or the end is not after the beginning.
    """
    low = moment_of(begin, option="--from", now=now) if begin is not None else None
    high = moment_of(end, option="--to", now=now) if end is not None else None
    if low is not None and high is not None and low >= high:
        raise WrongValueError(
            f"--from {low:%Y-%m-%dT%H:%M:%S%z} is not before --to {high:%Y-%m-%dT%H:%M:%S%z}; turn them round"
        )
    return low, high
