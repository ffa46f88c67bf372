"""Backups: what a node's tables held, in one checksummed file.

Layout: magic, then blocks, each ``length (4 bytes), CRC-32 (4 bytes), msgpack``. The first block is the
header (node, wall time, the tables' definitions), then blocks of ``[table, {key: value}]``, then one with the
number of rows, so that a file cut off at a block's end is found out too.

Rules: 1. Functions here block, and run in a thread; the rows they get are copies.  2. A backup appears under
its name whole, or not at all.  3. ``read_backup`` checks everything before it gives anything back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from zlib import crc32

import msgspec

from gossamer.mnesia_like.errors import CorruptTablesError, DiscError
from gossamer.mnesia_like.values import Key, Value, decode, encode

__all__ = ["Backup", "read_backup", "write_backup"]

_MAGIC = b"gossamer tables 1\n"
_BLOCK_ROWS = 1000
_MAX_BLOCK = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds: of each table its definition's options and the rows."""

    node: str
    wall: float
    definitions: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Mapping[Key, Value]]


def write_backup(path: Path, backup: Backup) -> int:
    """Write the file; its size in bytes.

    Raises:
        DiscError: it cannot be written; whatever stood under its name is as it was.
    """
    temporary = path.with_name(f".{path.name}.new")
    rows = 0
    try:
        with temporary.open("wb") as file:
            file.write(_MAGIC)
            _put(file, {"node": backup.node, "wall": backup.wall, "definitions": dict(backup.definitions)})
            for table, content in backup.tables.items():
                items = list(content.items())
                rows += len(items)
                for start in range(0, len(items), _BLOCK_ROWS):
                    _put(file, [table, dict(items[start : start + _BLOCK_ROWS])])
            _put(file, rows)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DiscError(
            str(path), problem=str(error), advice="choose a place with space that this user may write"
        ) from error
    return size


def read_backup(path: Path) -> Backup:
    """Read and check the file.

    Raises:
        CorruptTablesError: it is not a backup, or not as it was written.
        DiscError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DiscError(str(path), problem=str(error), advice="give the path of a backup") from error
    if not data.startswith(_MAGIC):
        _bad(path, "it does not begin as a backup does")
    view = memoryview(data)
    offset = len(_MAGIC)
    blocks: list[Any] = []
    while offset < len(data):
        length = int.from_bytes(view[offset : offset + 4], "big")
        body = view[offset + 8 : offset + 8 + length]
        if length > _MAX_BLOCK or len(body) < length:
            _bad(path, f"block {len(blocks)} is cut off")
        if crc32(body) != int.from_bytes(view[offset + 4 : offset + 8], "big"):
            _bad(path, f"block {len(blocks)} fails its checksum")
        try:
            blocks.append(decode(body))
        except msgspec.DecodeError as error:
            _bad(path, f"block {len(blocks)}: {error}")
        offset += 8 + length
    if len(blocks) < 2 or type(blocks[0]) is not dict or type(blocks[-1]) is not int:
        _bad(path, "its end is missing")
    header, *parts, rows = blocks
    tables: dict[str, dict[Key, Value]] = {name: {} for name in header["definitions"]}
    for table, content in parts:
        tables[table].update(content)
    if sum(map(len, tables.values())) != rows:
        _bad(path, f"it holds {sum(map(len, tables.values()))} rows, expected {rows}")
    return Backup(header["node"], header["wall"], header["definitions"], tables)


def _put(file: Any, block: Any) -> None:
    body = encode(block)
    file.write(len(body).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body)


def _bad(path: Path, problem: str) -> NoReturn:
    raise CorruptTablesError(str(path), problem=problem, advice="use another backup; nothing was restored")
