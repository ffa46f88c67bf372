"""Backups of a running node: its file of tables, with sessions and queues, as it is when it was asked for."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from gossamer.api.model.node import BackupInfo
from gossamer.errors import UnavailableError, UsageError, WrongValueError
from gossamer.mnesia_like import DiscError
from gossamer.node.parts import NodeParts

__all__ = ["BackupFailedError", "BadBackupPathError", "NothingOnDiscError", "back_up"]


class NothingOnDiscError(UsageError):
    """A backup was asked of a node that keeps nothing on disc."""

    def __init__(self, *, node: str) -> None:
        self.node = node
        super().__init__(
            f"{node} keeps nothing on disc, so there is nothing to back up; start it with node.data_dir set"
        )


class BadBackupPathError(WrongValueError):
    """A backup was to be written to a path that depends on where the node was started."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"path: got {got[:200]!r}, expected an absolute path on the node's machine")


class BackupFailedError(UnavailableError):
    """A backup could not be written."""


async def back_up(node: NodeParts, to: str | None) -> BackupInfo:
    """Write the file of tables to ``to``, unless told to ``backups`` in the data directory.

    Raises:
        NothingOnDiscError, BadBackupPathError, BackupExistsError: it cannot be, as it was asked.
        BackupFailedError: there is no space, or no right to write.
    """
    if node.data_dir is None:
        raise NothingOnDiscError(node=node.name)
    if to is None:
        moment = datetime.fromtimestamp(node.clock.wall(), UTC).strftime("%Y%m%dT%H%M%SZ")
        path = node.data_dir.absolute() / "backups" / f"{node.name}-{moment}.db"
    else:
        path = Path(to)
        if not path.is_absolute() or not to.isprintable():
            raise BadBackupPathError(got=to)
    begun = time.monotonic()
    try:
        size = await node.store.copy_disc(path)
    except DiscError as error:
        raise BackupFailedError(str(error)) from error
    except TimeoutError as error:
        raise BackupFailedError(f"{path} takes long, and may still come; look there first") from error
    return BackupInfo(node=node.name, path=str(path), bytes=size, seconds=time.monotonic() - begun)
