"""Destination of standard error, to which a node logs: a file, the journal, or something unreadable.

Asked of the operating system and not of the configuration: ``--log-file``, a redirection of a shell and a
unit file all end as descriptor 2. Rejected: a key of the configuration, which would be one more place that
may say otherwise.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["file", "journal", "terminal", "pipe", "null", "other"]
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class LogDestination:
    """Destination of descriptor 2 of a process."""

    kind: Kind
    path: str | None = None
    """Path of a file that still has a name."""
    identity: str | None = None
    """Tells this file from one of the same path on another machine or in another container."""


def log_destination(descriptor: int = 2) -> LogDestination:
    """Look at what is behind ``descriptor`` of this process now."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return LogDestination("null")
    if stat.S_ISREG(status.st_mode):
        path = _name_of(descriptor)
        return LogDestination("file", path, identity_of(status) if path else None)
    # The journal names its own socket: not every pipe or socket leads there (systemd.exec(5)).
    if os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}":
        return LogDestination("journal")
    if stat.S_ISCHR(status.st_mode):
        if os.isatty(descriptor):
            return LogDestination("terminal")
        return LogDestination("null" if status.st_rdev == os.stat(os.devnull).st_rdev else "other")  # noqa: PTH116
    return LogDestination("pipe" if stat.S_ISFIFO(status.st_mode) else "other")


def identity_of(status: os.stat_result) -> str:
    """Name a file of this machine, whatever path leads to it, until the machine starts again."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = os.uname().nodename
    return f"{boot}:{status.st_dev}:{status.st_ino}"


def _name_of(descriptor: int) -> str | None:
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - Path would take " (deleted)" for a name
    except OSError:
        return None
    return None if path.endswith(_DELETED) else path
