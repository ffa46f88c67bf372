"""The node's end of the socket pair to a host: non-blocking frames out and in.

The queue to the host is bounded; frames that must not be lost (create, stop, halt) may exceed the bound.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

import msgspec
import structlog

from gossamer.supervisor.process.port import guarded
from gossamer.supervisor.process.process import Process
from gossamer.supervisor.thespian import wire

log = structlog.get_logger(__name__)

BACKLOG = 1000
"""Maximum number of frames that wait for the host."""
AT_ONCE = 64
"""Maximum number of frames read in one turn of the loop."""


class HostLink:
    """Link of one process, closed when that ends; ``take`` gets the host's frames."""

    def __init__(self, process: Process, take: Callable[[wire.FrameToNode], None]) -> None:
        self._process = process
        self._loop = process.loop
        self._take = take
        self._backlog: deque[bytes] = deque()
        self._socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        """``theirs`` is the host's end; close it once the host has inherited it."""
        self._socket.setblocking(False)
        process.on_release(lambda _entry: self._close())

    def listen(self) -> None:
        """Start reading frames."""
        self._loop.add_reader(self._socket, guarded(self.read))

    def read(self) -> None:
        """Read available frames."""
        for _ in range(AT_ONCE):
            try:
                packet = self._socket.recv(2 * wire.MAX_FRAME)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                # The host is gone, and its process says how.
                self._loop.remove_reader(self._socket)
                return
            try:
                self._take(wire.to_node(packet))
            except msgspec.MsgspecError as error:
                log.error("bad_frame", system=self._process.label, error=str(error))

    def write(self, frame: wire.FrameToHost) -> bool:
        """Send a frame, now or when there is room; return False if too many wait.

        Raises:
            BadValueError: its value cannot be sent.
        """
        packet = wire.encode(frame)
        if self._socket.fileno() < 0:
            return False
        if len(self._backlog) >= BACKLOG and not isinstance(frame, wire.StopActor | wire.Halt | wire.Create):
            return False
        self._backlog.append(packet)
        if len(self._backlog) == 1:
            self._drain()
        return True

    def _drain(self) -> None:
        while self._backlog:
            try:
                self._socket.send(self._backlog[0])
            except BlockingIOError:
                self._loop.add_writer(self._socket, guarded(self._drain, entry=self._process))
                return
            except OSError:
                # The host is gone, and its process says how.
                self._backlog.clear()
                break
            self._backlog.popleft()
        self._loop.remove_writer(self._socket)

    def _close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
