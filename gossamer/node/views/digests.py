"""Checksums of replicated tables, to hold nodes against each other from outside.

As replication's own digests: the number of rows and the sum of the CRC-32 of each, whatever their order. It
is taken in slices, of rows as they are when their slice comes, so it is for tables that rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from zlib import crc32

import msgspec

from gossamer.api.model.node import TableDigest
from gossamer.mnesia_like import Store

__all__ = ["digests_of"]

_SLICE = 2000
_encode = msgspec.msgpack.Encoder().encode


async def digests_of(store: Store) -> AsyncIterator[TableDigest]:
    """One for each replicated table and owner."""
    for name in store.tables():
        if store.table_info(name)["replication"] == "local":
            continue
        sums: dict[str, list[int]] = {}
        for number, (owner, key, value) in enumerate(list(store.table(name).contents()), 1):
            row = sums.setdefault(owner, [0, 0])
            row[0] += 1
            row[1] += crc32(_encode((key, value)))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        for owner, (rows, total) in sorted(sums.items()):
            yield TableDigest(name=name, owner=owner, rows=rows, checksum=f"{total:x}")
