"""Disc copy of tables: one SQLite file, written by one thread, checked when it is opened.

Layout: ``_tables`` names each table with its number of rows and the sum of their CRC-32; ``t_<name>`` holds
``k``, ``v`` (msgpack) and ``c``, the CRC-32 of both. Rows and sums change in one transaction, so a file that
opens and adds up is exactly some committed state; any other is refused and left as it is.

Rules: 1. Everything here blocks and runs in the writer's thread.  2. ``commit`` is all or nothing, and on
disc (WAL, ``synchronous=FULL``) when it returns.  3. The file is locked as long as it is open: a second node
with the same directory fails at its start.

Rejected: checksums by triggers, which cost a second update per row; here two set-based queries change the
sums of a batch.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NoReturn
from zlib import crc32

from sqlite_utils import Database

from gossamer.files import replacing
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import (
    BackupExistsError,
    CorruptTablesError,
    DiscError,
    TableExistsError,
)
from gossamer.mnesia_like.values import Key, Value, decode

Batch = Mapping[str, Mapping[bytes, bytes | None]]
"""Per table: encoded keys, each with its encoded value, or None for a deleted row."""

_FORMATS = ("1", "2")
"""The second is the first, kept from releases that know the first alone: see :class:`Disc`."""
_LOAD = 2000

_ADVICE = {
    "full": "free some space; nothing acknowledged is lost, and writing goes on by itself",
    "read_only": "make the file and its directory writable for this user",
    "locked": "stop the other process, or give each node a data directory of its own",
    "corrupt": (
        "restore it from a backup, or have `python -m gossamer.mnesia_like set-aside` rename it (or start "
        "with on_corrupt='rebuild'): the tables then load from the peers"
    ),
    "format": (
        "start the release that wrote it, or restore the data directory as it was before the upgrade; "
        "set aside, it takes this node's sessions with it"
    ),
    "backup": "choose a place with space that this user may write",
    "other": "look at the machine's log for errors of the disc",
}

_KINDS = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_CANTOPEN: "read_only",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
}


class Disc:
    """Location of the disc copies, and the policy for a damaged file.

    ``closing``: a table and how keys of it begin whose rows close the way back to releases that know format 1
    alone, so that they refuse the file.
    """

    __slots__ = ("closing", "on_corrupt", "path")

    def __init__(
        self,
        path: str | Path,
        *,
        on_corrupt: Literal["refuse", "rebuild"] = "refuse",
        closing: tuple[str, bytes] | None = None,
    ) -> None:
        self.path = Path(path)
        self.on_corrupt = on_corrupt
        self.closing = closing

    def open(self) -> DiscFile:
        """Open or create the file.

        Raises:
            DiscError: it cannot be used; the error says why.
        """
        try:
            return DiscFile(self.path, self.closing)
        except CorruptTablesError as error:
            if self.on_corrupt == "refuse":
                raise
            aside = self.move_aside()
            file = DiscFile(self.path, self.closing)
            file.rebuilt = f"{error.problem}; moved to {aside}"
            return file

    def move_aside(self) -> Path:
        """Rename the file and its log for later inspection; return the new path."""
        for number in itertools.count(1):
            aside = self.path.with_name(f"{self.path.name}.corrupt-{number}")
            if not aside.exists():
                break
        self.path.rename(aside)
        for suffix in ("-wal", "-shm"):
            companion = self.path.with_name(self.path.name + suffix)
            if companion.exists():
                companion.rename(aside.with_name(aside.name + suffix))
        return aside


class DiscFile:
    """Open disc copy. ``rebuilt`` says what was wrong with its predecessor, if anything."""

    def __init__(self, path: Path, closing: tuple[str, bytes] | None = None) -> None:
        self.path = path
        self.rebuilt: str | None = None
        self._closing = closing
        with self._errors():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # It holds messages and token digests: its mode ignores the umask. SQLite's other files follow it.
            # If this fails, SQLite reports the reason. An existing file is not opened here: closing it
            # would release the locks of any other user of it in this process.
            with contextlib.suppress(OSError):
                if path.exists():
                    path.chmod(path.stat().st_mode & 0o600)
                else:
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            self._conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.0)
        try:
            with self._errors():
                self._db = Database(self._conn)
                self._prepare()
        except DiscError:
            self._conn.close()
            raise

    def create(self, definition: TableDef) -> None:
        """Create the rows' table unless it exists.

        Raises:
            TableExistsError: rows of another shape exist under its name; nothing changed.
            DiscError: nothing changed.
        """
        name = definition.name
        stamp = f"{definition.shape}#{definition.id}" if definition.id else definition.shape
        with self._errors():
            before = self.catalogue().get(name)
            if before is None:
                # A crash between the two leaves an empty table without an entry; it can be created again.
                columns = {"k": bytes, "v": bytes, "c": int}
                self._db.table(f"t_{name}").create(columns, pk="k", if_not_exists=True)
                self._db.table("_tables").insert({"name": name, "shape": stamp, "rows": 0, "total": 0})
            elif before[0] != definition.shape:
                raise TableExistsError(name, existing=f"{before[0]} on disc", asked=str(definition))
            elif before[1] != definition.id:
                self._conn.execute("UPDATE _tables SET shape = ? WHERE name = ?", (stamp, name))

    def open_table(self, definition: TableDef) -> dict[Key, Value]:
        """Create a table unless it exists, and load its rows; see :meth:`create` and :meth:`load`."""
        self.create(definition)
        return self.load(definition.name)

    def catalogue(self) -> dict[str, tuple[str, str]]:
        """Return each table's row shape, and the id it was created under (or "")."""
        found = self._conn.execute("SELECT name, shape FROM _tables ORDER BY name").fetchall()
        return {name: (stamp.partition("#")[0], stamp.partition("#")[2]) for name, stamp in found}

    def drop(self, table: str) -> None:
        """Delete a table and its rows.

        Raises:
            DiscError: nothing changed.
        """
        with self._transaction() as conn:
            conn.execute(f"DROP TABLE IF EXISTS [t_{table}]")
            conn.execute("DELETE FROM _tables WHERE name = ?", (table,))

    def load(self, table: str) -> dict[Key, Value]:
        """Load all rows and verify their checksums.

        Raises:
            CorruptTablesError: a checksum or sum is wrong.
        """
        rows: dict[Key, Value] = {}
        with self._errors():
            for pairs in self._checked(table):
                rows.update(decode(b"\xdf" + len(pairs).to_bytes(4, "big") + b"".join(pairs)))
        return rows

    def commit(self, batch: Batch) -> None:
        """Commit a batch, all of it or nothing.

        Raises:
            DiscError: nothing changed.
        """
        with self._transaction():
            for table, rows in batch.items():
                self._apply(table, rows)
                self._close_way_back(table)

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        found = self._conn.execute("SELECT rows FROM _tables WHERE name = ?", (table,)).fetchone()
        return 0 if found is None else int(found[0])

    def limit_pages(self, pages: int) -> None:
        """Limit the file to ``pages`` pages; 0: no limit."""
        self._conn.execute(f"PRAGMA max_page_count = {pages or 0xFFFFFFFE:d}")

    def pages(self) -> int:
        """Return the file's size in pages."""
        return int(self._conn.execute("PRAGMA page_count").fetchone()[0])

    def copy_to(self, path: Path) -> int:
        """Copy the committed state to another file, whole or not at all; return its size in bytes.

        The directory is made if it is ``backups`` beside this file. Any other has to be there: where a mount
        is missing the copy would land on the disc that it is to be safe from.

        Raises:
            BackupExistsError: a file of that name exists; it is unchanged.
            DiscError: it cannot be written.
        """
        try:
            if path.exists():
                raise BackupExistsError(str(path))
            if path.parent == self.path.parent.absolute() / "backups":
                path.parent.mkdir(mode=0o700, exist_ok=True)
            if not path.parent.is_dir():
                raise FileNotFoundError(f"there is no directory {path.parent}")
            with replacing(path) as draft:
                # By pages: a third of the time of VACUUM INTO, and commits wait for it.
                with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as copy:
                    # It is not read before it is renamed: one fsync at the end is enough.
                    copy.execute("PRAGMA journal_mode = OFF")
                    copy.execute("PRAGMA synchronous = OFF")
                    self._conn.backup(copy)
                return draft.stat().st_size
        except (OSError, sqlite3.Error) as error:
            raise DiscError(str(path), problem=str(error), advice=_ADVICE["backup"]) from error

    def close(self) -> None:
        """Checkpoint the log into the file and close it."""
        self._conn.close()

    # -- inside

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            self._fail(error)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        conn = self._conn
        with self._errors():
            conn.execute("BEGIN IMMEDIATE")
            try:
                yield conn
                conn.execute("COMMIT")
            except BaseException:
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
                raise

    def _prepare(self) -> None:
        conn = self._conn
        conn.execute("PRAGMA locking_mode = EXCLUSIVE")
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = FULL")
        conn.execute("PRAGMA temp_store = MEMORY")
        # Takes the lock now rather than at the first write.
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("COMMIT")
        found = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            self._corrupt(str(found))
        if "_tables" not in self._db.table_names():
            form = self._db.table("_format")
            form.create({"version": str}, if_not_exists=True)
            if not form.count:
                form.insert({"version": _FORMATS[0]})
            self._db.table("_tables").create(
                {"name": str, "shape": str, "rows": int, "total": int}, pk="name"
            )
        version = conn.execute("SELECT version FROM _format").fetchone()
        if version is None:
            self._corrupt("no format stands in it")
        if version[0] not in _FORMATS:
            # Presumably sound: another release can read it.
            problem = f"format {version[0]}, expected {' or '.join(_FORMATS)}"
            raise CorruptTablesError(str(self.path), problem=problem, advice=_ADVICE["format"])
        for (table,) in conn.execute("SELECT name FROM _tables ORDER BY name").fetchall():
            for _ in self._checked(table):
                pass
            self._close_way_back(table)
        conn.execute("CREATE TEMP TABLE batch (k BLOB PRIMARY KEY, v BLOB, c INTEGER) WITHOUT ROWID")

    def _close_way_back(self, table: str) -> None:
        if self._closing is None or self._closing[0] != table:
            return
        begin = self._closing[1]
        closes = f"EXISTS (SELECT 1 FROM [t_{table}] WHERE substr(k, 1, ?) = ?)"  # noqa: S608
        self._conn.execute(f"UPDATE _format SET version = '2' WHERE {closes}", (len(begin), begin))  # noqa: S608

    def _checked(self, table: str) -> Iterator[list[bytes]]:
        """Yield the encoded rows in batches; raise if a row or the sum is not what was committed."""
        rows = total = 0
        cursor = self._conn.execute(f"SELECT k, v, c FROM [t_{table}]")  # noqa: S608 - names are checked
        while batch := cursor.fetchmany(_LOAD):
            pairs = [key + value for key, value, _ in batch]
            sums = list(map(crc32, pairs))
            if sums != [c for _, _, c in batch]:
                self._corrupt(f"a row of table {table!r} fails its checksum")
            rows += len(pairs)
            total += sum(sums)
            yield pairs
        expected = self._conn.execute("SELECT rows, total FROM _tables WHERE name = ?", (table,)).fetchone()
        if (rows, total) != expected:
            self._corrupt(f"table {table!r} holds {rows} rows of sum {total}, expected {expected}")

    def _apply(self, table: str, rows: Mapping[bytes, bytes | None]) -> None:
        conn = self._conn
        conn.execute("DELETE FROM batch")
        conn.executemany(
            "INSERT INTO batch VALUES (?, ?, ?)",
            [
                (key, value, 0) if value is None else (key, value, crc32(value, crc32(key)))
                for key, value in rows.items()
            ],
        )
        name = f"[t_{table}]"
        old_rows, old_total = conn.execute(
            f"SELECT count(*), ifnull(sum(t.c), 0) FROM batch JOIN {name} t USING (k)"  # noqa: S608
        ).fetchone()
        new_rows, new_total = conn.execute(
            "SELECT count(*), ifnull(sum(c), 0) FROM batch WHERE v IS NOT NULL"
        ).fetchone()
        conn.execute(f"INSERT OR REPLACE INTO {name} SELECT k, v, c FROM batch WHERE v IS NOT NULL")  # noqa: S608
        conn.execute(f"DELETE FROM {name} WHERE k IN (SELECT k FROM batch WHERE v IS NULL)")  # noqa: S608
        conn.execute(
            "UPDATE _tables SET rows = rows + ?, total = total + ? WHERE name = ?",
            (new_rows - old_rows, new_total - old_total, table),
        )

    def _corrupt(self, problem: str) -> NoReturn:
        raise CorruptTablesError(str(self.path), problem=problem, advice=_ADVICE["corrupt"])

    def _fail(self, error: Exception) -> NoReturn:
        kind = _KINDS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "other")
        if isinstance(error, PermissionError):
            kind = "read_only"
        leaf = CorruptTablesError if kind == "corrupt" else DiscError
        raise leaf(str(self.path), problem=str(error), advice=_ADVICE[kind]) from error
