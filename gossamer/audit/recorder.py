"""The process of a node that empties its tape into the writer.

Rules: 1. The writer is a child process on the other end of a socket; when it ends, this process ends with it,
its supervisor starts both anew, and the tape goes on.  2. Nothing blocks: what the socket does not take stays
on the tape, which is bounded.  3. A batch is handed over whole or counted as lost: what a socket has taken in
part is finished first.  4. With nothing to say for ``BEAT`` seconds, a beat is recorded, so that silence can
be told from death.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct

import gossamer.audit.schema as schema
from gossamer.audit.journal import frame
from gossamer.audit.tape import KINDS, Row, Tape
from gossamer.audit.writer import READY, Limits
from gossamer.supervisor import (
    Exit,
    GenServer,
    NoReply,
    OsProcess,
    Reason,
    Stop,
    self_pid,
    send_after,
    trap_exit,
)

__all__ = ["Recorder"]

log = structlog.get_logger(__name__)

EVERY = 0.1
"""Seconds between batches."""
BEAT = 1.0
_BATCH = 20_000
"""Rows of one batch: bounds the turn in which it is encoded."""


class _Turn(Struct, frozen=True):
    """Time to hand over what there is."""


class Recorder(GenServer):
    """``await Recorder.start_link(tape, root=…, node=…, creation=…, limits=…, share=1.0)``."""

    kind = "recorder"

    async def init(
        self,
        tape: Tape,
        *,
        root: Path,
        node: str,
        creation: int,
        limits: Limits,
        share: float,
        every: float = EVERY,
    ) -> None:
        trap_exit(True)
        self._tape = tape
        self._every = every
        self._silent = 0.0
        self._pending = b""
        self._waiting: list[Row] = []
        ours, theirs = socket.socketpair()
        self._socket = ours
        ours.setblocking(False)
        self.process.on_release(lambda _entry: ours.close())
        with theirs:
            await OsProcess.start_link(
                [
                    *(sys.executable, "-m", "gossamer.audit", str(theirs.fileno())),
                    *(str(root), node, str(creation), *map(str, limits)),
                ],
                pass_fds=(theirs.fileno(),),
                ready=READY,
                grace=30.0,
                label="audit writer",
            )
        tape.note(KINDS[schema.OPENED], json.dumps({"share": share}))
        self._turn()

    async def handle_info(self, message: Any) -> NoReply | Stop | None:
        if isinstance(message, _Turn):
            self._turn()
            return None
        if isinstance(message, Exit):
            return Stop(message.reason)
        return await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        self._tape.note(KINDS[schema.CLOSED])
        # In order: the writer gets what there is, then the end of the stream, and finishes by itself.
        self._socket.setblocking(True)
        self._socket.settimeout(2.0)
        try:
            while self._pending or self._waiting or len(self._tape):
                self._fill()
                self._socket.sendall(self._pending)
                self._pending = b""
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            log.warning("recording_cut_off", error=str(error), rows=len(self._tape) + len(self._waiting))

    def _turn(self) -> None:
        self._silent = 0.0 if len(self._tape) else self._silent + self._every
        if self._silent >= BEAT:
            self._tape.note(KINDS[schema.BEAT])
            self._silent = 0.0
        self._hand_over()
        send_after(self._every, self_pid(), _Turn())

    def _hand_over(self) -> None:
        """Send until the socket is full or there is nothing more."""
        while True:
            if not self._pending:
                self._fill()
                if not self._pending:
                    return
            try:
                sent = self._socket.send(self._pending)
            except BlockingIOError:
                return
            self._pending = self._pending[sent:]

    def _fill(self) -> None:
        if not self._waiting:
            self._waiting = self._tape.take()
        if self._waiting:
            rows, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            self._pending = frame(rows)
