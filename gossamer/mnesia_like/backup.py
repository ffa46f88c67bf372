"""Backup of tables to a file, and restore, in slices that do not block the loop.

A backup has the format of a disc copy (see ``disc``), row checksums included; each table's definition is
stored under the schema's name.

Rules: 1. A backup is a snapshot of one moment, and appears under its name whole, or not at all.
2. It contains only what this node may write: of an owned table its own rows.  3. A restore checks the file
and finds or creates the tables before it writes; its writes are ordinary ones, so peers and disc get the rows
as new.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from gossamer.files import replacing
from gossamer.mnesia_like.core import AnyTable
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import DiscFile
from gossamer.mnesia_like.errors import CorruptTablesError, DiscError, NoSuchTableError
from gossamer.mnesia_like.schema.table import SCHEMA
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.values import Key, Value, encode

_RESTORE_ROWS = 2000
_DEFINITIONS = TableDef(name=SCHEMA)


async def backup(path: Path, tables: list[AnyTable]) -> int:
    """See ``Store.backup``."""
    content = {t.definition: dict(_writable(t)) for t in tables}
    content[_DEFINITIONS] = {t.name: asdict(t.definition) for t in tables}
    return await asyncio.get_running_loop().run_in_executor(None, _write, path, content)


async def restore(
    path: Path, tables: Iterable[str] | None, create: Callable[..., Awaitable[AnyTable]]
) -> dict[str, int]:
    """See ``Store.restore``."""
    content = await asyncio.get_running_loop().run_in_executor(None, _read, path)
    definitions = content.pop(SCHEMA)
    names = list(content if tables is None else tables)
    for name in names:
        if name not in content:
            raise NoSuchTableError(name, list(content))
    found = [await create(**definitions[name]) for name in names]
    for table in found:
        for number, (key, value) in enumerate(content[table.name].items()):
            for item in value if table.definition.type == "bag" else (value,):
                table.write(key, item)
            if number % _RESTORE_ROWS == _RESTORE_ROWS - 1:
                # Yield to other tasks, and let the disc catch up.
                await table.durable(None)
                await asyncio.sleep(0)
    return {table.name: len(content[table.name]) for table in found}


def _writable(table: AnyTable) -> Mapping[Key, Value]:
    """Rows of a table that this node may write."""
    return table.rows_of(table.node) if isinstance(table, OwnedTable) else table.rows()


def _write(path: Path, content: dict[TableDef, dict[Key, Value]]) -> int:
    try:
        with replacing(path) as draft:
            file = DiscFile(draft)
            try:
                for definition, rows in content.items():
                    file.create(definition)
                    encoded = {encode(key): encode(value) for key, value in rows.items()}
                    file.commit({definition.name: encoded})
            finally:
                file.close()
            return draft.stat().st_size
    except (OSError, DiscError) as error:
        problem = error.problem if isinstance(error, DiscError) else str(error)
        advice = "choose a place with space that this user may write"
        raise DiscError(str(path), problem=problem, advice=advice) from error


def _read(path: Path) -> dict[str, dict[Key, Value]]:
    try:
        if not path.is_file():
            raise FileNotFoundError("no such file")
        # A copy: opening writes to the file and beside it, and a backup may be on a read-only place.
        with tempfile.TemporaryDirectory() as place:
            file = DiscFile(Path(shutil.copyfile(path, Path(place, "tables.db"))))
            try:
                catalogue = file.catalogue()
                # A node's own file has a schema too, which is shared; SQLite makes one of an empty file.
                if catalogue.get(SCHEMA, ("",))[0] != _DEFINITIONS.shape:
                    raise CorruptTablesError(str(path), problem="it is no backup", advice="")
                return {name: file.load(name) for name in catalogue}
            finally:
                file.close()
    except CorruptTablesError as error:
        advice = "use another backup; nothing was restored"
        raise CorruptTablesError(str(path), problem=error.problem, advice=advice) from error
    except (OSError, DiscError) as error:
        problem = error.problem if isinstance(error, DiscError) else str(error)
        advice = "give the path of a backup that this user may read, and have room for a copy in $TMPDIR"
        raise DiscError(str(path), problem=problem, advice=advice) from error
