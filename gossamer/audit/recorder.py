"""The process of a node that empties its buffer into the writer.

Rules: 1. The writer is a child process on the other end of a socket; when it ends, this process ends with it,
its supervisor restarts both, and the buffer goes on.  2. Nothing blocks: what the socket does not take
stays in the buffer, which is bounded, and a turn of the loop encodes no more than :data:`_WEIGHT`.  3. A
batch is handed over whole or counted as lost: what a socket has taken in part is finished first, and what
goes down with a writer is a ``gap``.  4. With nothing to say for ``BEAT`` seconds, a beat is recorded, so
that silence can be told from death.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path

import structlog

import gossamer.audit.schema as schema
from gossamer.audit.event_buffer import KINDS, EventBuffer
from gossamer.audit.journal import Batch, frame
from gossamer.audit.writer import READY, Limits
from gossamer.supervisor import (
    Exit,
    GenServer,
    NoReply,
    OsProcess,
    Reason,
    Stop,
    self_pid,
    send,
    send_after,
    trap_exit,
)

log = structlog.get_logger(__name__)

EVERY = 0.1
"""Seconds between batches."""
BEAT = 1.0
_WEIGHT = 2_000
"""Rows encoded in one turn of the loop, about a millisecond; twenty clients of a row count like another."""
_FINISH = 30.0
"""Seconds for the writer to finish its last file."""
_ROOM = 4 * 2**20
"""Bytes that the kernel is asked to hold between the two; it may give less."""


class Recorder(GenServer):
    """``await Recorder.start_link(buffer, root=…, node=…, creation=…, limits=…, share=1.0)``."""

    kind = "recorder"

    async def init(
        self,
        buffer: EventBuffer,
        *,
        root: Path,
        node: str,
        creation: int,
        limits: Limits,
        share: float,
        every: float = EVERY,
    ) -> None:
        trap_exit(True)
        self._buffer = buffer
        self._every = every
        self._silent = 0.0
        self._pending = b""
        self._in_pending = 0
        self._dead = False
        self._me = self_pid()
        self._loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
        self._socket = ours
        self._waits = False
        ours.setblocking(False)
        self.process.on_release(lambda _entry: self._release())
        with theirs:
            self._writer = await OsProcess.start_link(
                [
                    *(sys.executable, "-m", "gossamer.audit.writer", str(theirs.fileno())),
                    *(str(root), node, str(creation), *map(str, limits)),
                ],
                pass_fds=(theirs.fileno(),),
                ready=READY,
                grace=30.0,
                label="audit writer",
            )
        buffer.note(KINDS[schema.OPENED], json.dumps({"share": share}))
        self._turn()

    async def handle_info(self, message: object) -> NoReply | Stop | None:
        match message:
            case "turn":
                self._turn()
            case "more":
                # The socket took the last batch.
                self._hand_over()
            case Exit(reason=reason):
                self._lose()
                return Stop(reason)
            case _:
                return await super().handle_info(message)
        return None

    async def terminate(self, reason: Reason) -> None:
        if self._dead:
            # What is in the buffer is for the next writer.
            return
        self._buffer.note(KINDS[schema.CLOSED])
        # In order: the writer gets what there is, then the end of the stream, and finishes by itself.
        self._socket.setblocking(True)
        self._socket.settimeout(2.0)
        try:
            while self._pending or len(self._buffer):
                if not self._pending:
                    self._fill()
                self._socket.sendall(self._pending)
                self._pending = b""
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            log.warning("recording_cut_off", error=str(error), rows=len(self._buffer))
            return
        try:
            async with asyncio.timeout(_FINISH):
                # Whoever ends the node would end it too, in the middle of its last file.
                await asyncio.shield(self.process.runtime.join(self._writer))
        except TimeoutError:
            log.warning(
                "recording_unfinished", advice="the next start of the node finishes what is journalled"
            )

    def _turn(self) -> None:
        self._silent = 0.0 if len(self._buffer) else self._silent + self._every
        if self._silent >= BEAT:
            self._buffer.note(KINDS[schema.BEAT])
            self._silent = 0.0
        if not self._waits:
            self._hand_over()
        send_after(self._every, self._me, "turn")

    def _hand_over(self) -> None:
        """Send one batch; another one in the next turn, or when the socket has room again."""
        if not self._pending:
            self._fill()
        if not self._pending:
            return
        try:
            sent = self._socket.send(self._pending)
        except BlockingIOError:
            sent = 0
        except OSError:
            # The writer is gone; its exit is on its way here.
            return
        self._pending = self._pending[sent:]
        if self._pending:
            if not self._waits:
                self._waits = True
                self._loop.add_writer(self._socket, self._room)
        elif len(self._buffer):
            send(self._me, "more")

    def _room(self) -> None:
        self._waits = False
        self._loop.remove_writer(self._socket)
        send(self._me, "more")

    def _fill(self) -> None:
        batch = self._buffer.take(_WEIGHT)
        if batch:
            self._in_pending = batch[-1][0] - batch[0][0] + 1
            self._pending = frame(Batch(self._buffer.offset_us, batch))

    def _lose(self) -> None:
        """The writer died: what it has not got whole is lost, what was not begun goes to the next one."""
        self._dead = True
        if self._pending:
            self._pending = b""
            self._buffer.lose(self._in_pending, "writer")

    def _release(self) -> None:
        if self._waits and not self._loop.is_closed():
            self._loop.remove_writer(self._socket)
        self._socket.close()
