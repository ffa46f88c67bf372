"""Recording, as a node has it: switched on and off, set, and asked what it did.

::

    audit (one_for_one)
    ├── audit_recorder   empties the buffer into the writer's process, which it owns
    ├── audit_watch      members, splits and heals; at its start, what stands already
    └── audit_offsets    how far this node's clock is off

Rules: 1. Recording never ends its node: when its processes cannot be kept alive, it is switched off, logged
and seen in its status, and messages go on.  2. A buffer lasts as long as its node's life; its numbers go on
when recording is switched off and on, and readers see from ``closed`` and ``opened`` that nobody looked
meanwhile.  3. The share and the bound of the buffer change at once; how files are written, with a new writer.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog

from gossamer.audit.deliveries import Parents
from gossamer.audit.event_buffer import EventBuffer
from gossamer.audit.flow_recorder import FlowRecorder
from gossamer.audit.lives import Client
from gossamer.audit.queue_events import QueueEvents
from gossamer.audit.recorder import Recorder
from gossamer.audit.watch import WATCH, ClockOffsets, Watch
from gossamer.audit.writer import Limits
from gossamer.clock import Clock
from gossamer.config import AuditConfig
from gossamer.distribution import Distribution
from gossamer.errors import UnavailableError, how_to_install
from gossamer.supervisor import ChildSpec, GenServer, Pid, Reason, Runtime, StartFailed, Supervisor, describe

log = structlog.get_logger(__name__)

AUDIT = "audit"
RECORDER = "audit_recorder"
_STOP = 40.0
"""Seconds for the writer to finish what it has."""


def key_of(config: AuditConfig, cookie: str) -> bytes:
    """Return the key for hashes of payloads and client identifiers, the same on all nodes of a cluster."""
    secret = cookie if config.key is None else config.key.get_secret_value()
    return blake2b(secret.encode(), digest_size=32, person=b"gossamer-audit").digest()


class Auditor:
    """Flow recording of one node: starts, stops and reconfigures it.

    ``fanout`` is the broker's and ``queues`` the node's, which report events while recording is on; ``key``
    is what pseudonyms and payloads are hashed with.
    """

    def __init__(
        self,
        config: AuditConfig,
        *,
        runtime: Runtime,
        fanout: Any,
        queues: Any,
        sessions: Mapping[str, Any],
        distribution: Distribution,
        filters_of: Callable[[str], list[str]],
        clock: Clock,
        key: bytes,
        data_dir: Path | None,
        buffer: EventBuffer,
    ) -> None:
        self.config = config
        self.runtime = runtime
        self._fanout = fanout
        self._queues = queues
        self._sessions = sessions
        self._distribution = distribution
        self._clock = clock
        self.root = config.dir if data_dir is None else data_dir / config.dir
        self.buffer = buffer
        self.recording = False
        """True while rows go to files; traces alone may fill the buffer, too."""
        self._traces: Parents | None = None
        self._traced_share = 0.0
        self.recorder = FlowRecorder(
            self.buffer,
            node=runtime.node,
            creation=runtime.creation,
            fanout=fanout,
            key=key,
            pseudonyms=config.pseudonyms,
            filters_of=filters_of,
            soon=lambda callback: runtime.loop.call_soon(callback),
        )
        self.queue_events = QueueEvents(buffer, self.recorder.alias)

    @property
    def running(self) -> bool:
        """Return whether something empties the buffer."""
        return self.runtime.whereis(RECORDER) is not None

    def check(self) -> None:
        """Check that pyarrow is installed and the directory can be written to.

        Raises:
            UnavailableError: it cannot, and why.
        """
        if importlib.util.find_spec("pyarrow") is None:
            missing = "audit: pyarrow is not installed, and writes the files"
            raise UnavailableError(f"{missing}; {how_to_install('audit')}")
        wrong = ""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.root, os.W_OK | os.X_OK):
                wrong = "is not writable"
        except OSError as error:
            wrong = f"cannot be made: {error.strerror}"
        if wrong:
            advice = "name a directory that this user may write to"
            raise UnavailableError(f"audit: audit.dir {self.root} {wrong}; {advice}")

    def spec(self) -> ChildSpec:
        """The recorder's subtree, for the node's supervisor."""
        return ChildSpec(AUDIT, self._start, restart="temporary", shutdown=_STOP + 5.0, type="supervisor")

    async def switch(self, *, on: bool) -> None:
        """Begin or end recording, in the supervisor that is called node.

        Raises:
            UnavailableError: it cannot begin.
        """
        if on == self.running:
            return
        if on:
            self.check()
            await self.runtime.run(Supervisor.start_child, "node", self.spec())
            return
        self._listen(recording=False)
        await self.runtime.run(Supervisor.terminate_child, "node", AUDIT)

    async def change(self, config: AuditConfig) -> None:
        """Apply ``config`` from now on, until the node is restarted.

        Raises:
            UnavailableError: it cannot begin.
        """
        before, self.config = self.config, config
        self.buffer.limit = config.buffer
        self._listen(recording=self.recording)
        if self.running and config.enable and _limits(before) != _limits(config):
            await self.switch(on=False)
        await self.switch(on=config.enable)

    def status(self) -> dict[str, Any]:
        """Counters since the node started. Looks at the disc: not for the loop."""
        files, size, oldest = self._files()
        return {
            "enabled": self.config.enable,
            "recording": self.running and self.recording,
            "sample": self.config.sample,
            "dir": str(self.root.resolve()),
            "messages": self.recorder.kept,
            "recorded": self.buffer.number - self.buffer.lost,
            "dropped": self.buffer.lost,
            "gaps": self.buffer.gaps,
            "buffered": len(self.buffer),
            "buffer": self.buffer.limit,
            "files": files,
            "bytes": size,
            "oldest": oldest,
            "clock_offset": None if self.buffer.offset_us is None else self.buffer.offset_us / 1e6,
        }

    def _files(self) -> tuple[int, int, float | None]:
        files, size, oldest = 0, 0, None
        for path in self.root.glob(f"day=*/hour=*/node={quote(self.runtime.node, safe='')}/*.parquet"):
            try:
                stat = path.stat()
            except FileNotFoundError:
                # Retention was faster.
                continue
            files += 1
            size += stat.st_size
            oldest = stat.st_mtime if oldest is None else min(oldest, stat.st_mtime)
        return files, size, oldest

    def trace(self, parents: Parents | None, *, share: float = 0.0) -> None:
        """Note messages for traces as well, or no longer: ``share`` of them where nothing is recorded."""
        self._traces = parents
        self._traced_share = share
        self._listen(recording=self.recording)

    def _listen(self, *, recording: bool) -> None:
        """Let the broker tell what it is to tell now: for files, for traces, or nothing."""
        self.recording = recording
        self.recorder.parents = self._traces
        self.recorder.sample = self.config.sample if recording else self._traced_share
        self._fanout.recorder = self.recorder if recording or self._traces is not None else None
        self._queues.recorder = self.queue_events if recording else None

    async def _start(self) -> Pid:
        config = self.config
        children = [
            _child(
                RECORDER,
                Recorder,
                self.buffer,
                root=self.root,
                node=self.runtime.node,
                creation=self.runtime.creation,
                limits=_limits(config),
                share=config.sample,
            ),
            _child(
                WATCH,
                Watch,
                buffer=self.buffer,
                recorder=self.recorder,
                distribution=self._distribution,
                sessions=self._standing,
            ),
            _child("audit_offsets", ClockOffsets, clock=self._clock, nodes=self._peers, found=self._found),
        ]
        # Told of from now on; what stands already is told by the watch.
        self._listen(recording=True)
        try:
            pid = await Supervisor.start_link(children, intensity=30, period=60.0, name=AUDIT, label=AUDIT)
        except StartFailed:
            self._listen(recording=False)
            raise
        self.runtime.join(pid).add_done_callback(self._over)
        return pid

    def _over(self, joined: asyncio.Future[Reason]) -> None:
        if not self.recording:
            return
        self._listen(recording=False)
        if joined.result() != "shutdown":
            log.error("recording_ended", reason=describe(joined.result()), advice="gossamer audit set --on")

    def _standing(self) -> Iterable[Client]:
        return [*self._sessions.values(), *self._fanout.remote_clients]

    def _peers(self) -> list[str]:
        peers = self._distribution.peers
        return [name for name in self._distribution.nodes() if name in peers and not peers[name].hidden]

    def _found(self, offset_us: int) -> None:
        self.buffer.offset_us = offset_us


def _child(name: str, kind: type[GenServer], *arguments: object, **options: object) -> ChildSpec:
    start = partial(kind.start_link, *arguments, **options, name=name, label=name)
    return ChildSpec(name, start, shutdown=_STOP if kind is Recorder else None)


def _limits(config: AuditConfig) -> Limits:
    return Limits(
        rotate_size=config.rotate_size,
        rotate_after=config.rotate_after,
        keep_size=config.keep_size,
        keep_for=config.keep_for or 0.0,
    )
