"""The inside of a node: tables and what is on disc, processes, numbers, configuration, log, recorder."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import msgspec
import structlog

from gossamer.api.model.node import (
    BackupInfo,
    ProcessInfo,
    RecordingInfo,
    RecordingSettings,
    TableDigest,
    TableInfo,
)
from gossamer.config import to_plain
from gossamer.errors import GossamerError, UnavailableError, UsageError, WrongValueError, mismatch
from gossamer.mnesia_like import DiscError, OwnedTable
from gossamer.node.parts import NodeParts
from gossamer.queues import redeclare
from gossamer.supervisor import TraceLine, follow, locate

RELOAD_TIMEOUT = 15.0
FILE_WATCH = "mqtt_files"
LEFT = "declared no more, and left as it is; gossamer queues delete deletes it"
REFUSED = "refused: "
TRACE_PULSE = 5.0
"""Seconds after which a trace without events gives a sign of life."""
_SLICE = 2000
"""Rows that are summed up in one turn of the loop."""
_LEVELS = ("debug", "info", "warning", "error")
_encode = msgspec.msgpack.Encoder().encode


class InsideView:
    """The part of :class:`gossamer.api.NodeView` that is about what a node holds and runs."""

    _node: NodeParts
    name: str

    def tables(self) -> Sequence[TableInfo]:
        """The tables of this node."""
        store = self._node.store
        infos = []
        for name in store.tables():
            info = store.table_info(name)
            owned = isinstance(store.table(name), OwnedTable)
            infos.append(
                TableInfo(
                    name=name,
                    type=info["type"],
                    storage=info["storage"],
                    replication=info["replication"],
                    rows=info["size"],
                    loaded=not owned or all(r["loaded"] or not r["up"] for r in info["replicas"].values()),
                    owners=info.get("owners", {self.name: info["size"]}),
                )
            )
        return infos

    async def digests(self) -> Sequence[TableDigest]:
        """Checksums of replicated tables, one for each owner, to hold nodes against each other from outside.

        As replication's own digests: the number of rows and the sum of the CRC-32 of each, whatever their
        order. They are taken in slices, of rows as they are when their slice comes: for tables that rest.
        """
        store, digests = self._node.store, []
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
            digests += [
                TableDigest(name=name, owner=owner, rows=rows, checksum=f"{total:x}")
                for owner, (rows, total) in sorted(sums.items())
            ]
        return digests

    async def backup(self, path: str | None) -> BackupInfo:
        """Write the file of tables to ``path``, unless told to ``backups`` in the data directory.

        Raises:
            UsageError: it cannot be, as it was asked.
            UnavailableError: there is no space, or no right to write.
        """
        node = self._node
        if node.data_dir is None:
            raise UsageError(
                f"{node.name} keeps nothing on disc, so there is nothing to back up; "
                "start it with node.data_dir set"
            )
        if path is None:
            moment = datetime.fromtimestamp(node.clock.wall(), UTC).strftime("%Y%m%dT%H%M%SZ")
            to = node.data_dir.absolute() / "backups" / f"{node.name}-{moment}.db"
        else:
            to = Path(path)
            if not to.is_absolute() or not path.isprintable():
                raise mismatch(
                    WrongValueError, "path", repr(path[:200]), "an absolute path on the node's machine"
                )
        begun = time.monotonic()
        try:
            size = await node.store.copy_disc(to)
        except DiscError as error:
            raise UnavailableError(str(error)) from error
        except TimeoutError as error:
            raise UnavailableError(f"{to} takes long, and may still come; look there first") from error
        return BackupInfo(node=node.name, path=str(to), bytes=size, seconds=time.monotonic() - begun)

    async def processes(self, *, fold: int = 20, root: str | None = None) -> Sequence[ProcessInfo]:
        """The supervision tree, or what is below one process."""
        runtime = self._node.runtime
        pid = None if root is None else locate(runtime, root)
        return [ProcessInfo.model_validate(node) for node in await runtime.tree(fold=fold, root=pid)]

    def trace(self, pid: str, *, seconds: float, limit: int) -> AsyncGenerator[TraceLine | None, None]:
        """Trace what a process takes in and sends out."""
        runtime = self._node.runtime
        return follow(
            runtime,
            locate(runtime, pid),
            now=self._node.clock.wall,
            seconds=seconds,
            limit=limit,
            pulse=TRACE_PULSE,
        )

    def config(self, *, changed_only: bool = False) -> dict[str, object]:
        """The configuration that the node runs with, secrets hidden."""
        return to_plain(self._node.config, changed_only=changed_only)

    async def reload(self) -> tuple[str, ...]:
        """Read certificates, passwords and access lists again if they changed; which files are looked at.

        Raises:
            UsageError: some cannot be used; what was read of them before stays.
        """
        node = self._node
        if node.runtime.whereis(FILE_WATCH) is not None:
            refused = await node.runtime.call(FILE_WATCH, "look", timeout=RELOAD_TIMEOUT)
            if refused:
                raise UsageError(f"refused, what was read before stays: {'; and '.join(refused)}")
        return tuple(sorted({str(path) for item in node.reloadable for path in item.files()}))

    async def reload_queues(self) -> dict[str, str]:
        """Have queues as the configuration file declares them now; what came of each that differs, by name.

        Raises:
            ConfigError: the file cannot be used; what was read before stays.
        """
        node = self._node
        if node.reread is None:
            return {}
        wanted = {queue.name: queue for queue in (await asyncio.to_thread(node.reread)).queues}
        before, came = node.queues.declared, {}
        for name, queue in list(wanted.items()):
            try:
                if done := await node.runtime.run(redeclare, queue):
                    came[name] = done
            except GossamerError as error:
                came[name] = f"{REFUSED}{error}"
                del wanted[name]
        # What was refused is as it was before.
        wanted |= {name: queue for name, queue in before.items() if name in came and name not in wanted}
        came |= dict.fromkeys(before.keys() - wanted.keys(), LEFT)
        node.queues.declared = wanted
        node.config = node.config.model_copy(update={"queues": tuple(wanted.values())})
        return came

    def log_level(self, level: str | None = None) -> str:
        """Return the log level of this node's process, after setting it to ``level`` if given."""
        return log_level(level)


def log_level(level: str | None = None) -> str:
    """Return the log level, after setting it to ``level`` if given. Nodes of one process share it."""
    root = logging.getLogger("gossamer")
    if level is not None:
        number = logging.getLevelNamesMapping()[level.upper()]
        root.setLevel(number)
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))
    word = logging.getLevelName(root.getEffectiveLevel()).lower()
    return word if word in _LEVELS else "info"


class Recording:
    """The flow recorder of a node: implements :class:`gossamer.api.RecordingView`."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node

    async def status(self) -> RecordingInfo:
        """Return the state and counters of the recorder."""
        # It lists directories.
        found = await asyncio.to_thread(self._node.auditor.status)
        return RecordingInfo(node=self._node.name, **found)

    async def configure(self, settings: RecordingSettings) -> RecordingInfo:
        """Change what ``settings`` names."""
        auditor = self._node.auditor
        wanted = {name: getattr(settings, name) for name in settings.model_fields_set}
        await auditor.change(auditor.config.model_copy(update=wanted))
        return await self.status()
