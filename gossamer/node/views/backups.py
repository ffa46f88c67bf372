"""Backups of a running node: its file of tables, with sessions and queues, as it is when it was asked for."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from gossamer.api.model.node import BackupInfo
from gossamer.errors import UnavailableError, UsageError, WrongValueError
from gossamer.mnesia_like import DiscError
from gossamer.node.parts import NodeParts

__all__ = ["back_up"]


async def back_up(node: NodeParts, to: str | None) -> BackupInfo:
    """Write the file of tables to ``to``, unless told to ``backups`` in the data directory.

    Raises:
        UsageError: it cannot be, as it was asked.
        UnavailableError: there is no space, or no right to write.
    """
    if node.data_dir is None:
        raise UsageError(
            f"{node.name} keeps nothing on disc, so there is nothing to back up; "
            "start it with node.data_dir set"
        )
    if to is None:
        moment = datetime.fromtimestamp(node.clock.wall(), UTC).strftime("%Y%m%dT%H%M%SZ")
        path = node.data_dir.absolute() / "backups" / f"{node.name}-{moment}.db"
    else:
        path = Path(to)
        if not path.is_absolute() or not to.isprintable():
            raise WrongValueError.about("path", repr(to[:200]), "an absolute path on the node's machine")
    begun = time.monotonic()
    try:
        size = await node.store.copy_disc(path)
    except DiscError as error:
        raise UnavailableError(str(error)) from error
    except TimeoutError as error:
        raise UnavailableError(f"{path} takes long, and may still come; look there first") from error
    return BackupInfo(node=node.name, path=str(path), bytes=size, seconds=time.monotonic() - begun)
