"""Tables to a backup and back: which rows of them, and how they are written again without holding up others.

Rules: 1. The rows of a backup are those of one moment.  2. Only what this node may write is in it: of an
owned table its own rows.  3. A restore checks the file and finds or makes the tables before it writes; it
writes as anyone does, so that peers and disc get the rows as new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gossamer.mnesia_like.disc.backup import Backup, read_backup, write_backup
from gossamer.mnesia_like.errors import NoSuchTableError
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.shared import SharedTable

__all__ = ["backup", "restore", "writable"]

_RESTORE_ROWS = 2000

AnyTable = LocalTable | OwnedTable | SharedTable


async def backup(path: Path, node: str, wall: float, tables: list[AnyTable]) -> int:
    """See ``Store.backup``."""
    content = Backup(
        node,
        wall,
        {t.name: asdict(t.definition) for t in tables},
        {t.name: dict(writable(t)) for t in tables},
    )
    return await asyncio.get_running_loop().run_in_executor(None, write_backup, path, content)


async def restore(
    path: Path, tables: Iterable[str] | None, create: Callable[..., Awaitable[AnyTable]]
) -> dict[str, int]:
    """See ``Store.restore``."""
    content = await asyncio.get_running_loop().run_in_executor(None, read_backup, path)
    names = list(content.tables if tables is None else tables)
    for name in names:
        if name not in content.tables:
            raise NoSuchTableError(name, list(content.tables))
    found = [await create(**content.definitions[name]) for name in names]
    for table in found:
        for number, (key, value) in enumerate(content.tables[table.name].items()):
            if table.definition.type == "bag":
                for item in value:
                    table.write(key, item)
            else:
                table.write(key, value)
            if number % _RESTORE_ROWS == _RESTORE_ROWS - 1:
                # Everyone else's turn; and the disc's, where rows wait for it.
                await table.durable(None)
                await asyncio.sleep(0)
    return {table.name: len(content.tables[table.name]) for table in found}


def writable(table: AnyTable) -> Mapping[Any, Any]:
    """The rows of a table that this node may write."""
    return table.rows_of(table.node) if isinstance(table, OwnedTable) else table.rows()
