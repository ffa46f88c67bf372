"""One question, one answer, one connection: frames of sealed packets over a stream.

A frame is four bytes of length and a packet. Both sides bound what they buffer by the largest frame, and the
answering side also bounds how long and how many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from gossamer.gossip.wire import PacketRejected

__all__ = ["MAX_FRAME", "AnsweringStream", "AskingStream", "FrameBuffer", "frame"]

_HEAD = 4
MAX_FRAME = 8 * 1024 * 1024
"""Largest stream frame."""


def frame(packet: bytes) -> bytes:
    """A packet as it goes onto a stream."""
    return len(packet).to_bytes(_HEAD, "big") + packet


class FrameBuffer:
    """Collects bytes until one frame is whole."""

    def __init__(self, *, max_frame: int) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """The packet, once it is whole.

        Raises:
            PacketRejected: ``oversized``; the length alone says so, the rest is not waited for.
        """
        self._buffer += data
        if len(self._buffer) < _HEAD:
            return None
        length = int.from_bytes(self._buffer[:_HEAD], "big")
        if length > self._max_frame:
            raise PacketRejected(
                "oversized", f"a frame of {length} bytes, expected at most {self._max_frame}"
            )
        if len(self._buffer) < _HEAD + length:
            return None
        return bytes(self._buffer[_HEAD : _HEAD + length])


class AskingStream(asyncio.Protocol):
    """The side that connected: sends one frame, waits for one."""

    def __init__(self, *, max_frame: int) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._frames = FrameBuffer(max_frame=max_frame)

    def data_received(self, data: bytes) -> None:
        if self.answer.done():
            return
        try:
            packet = self._frames.feed(data)
        except PacketRejected as error:
            self.answer.set_exception(error)
            return
        if packet is not None:
            self.answer.set_result(packet)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            # Nobody may be waiting any more, so an exception would be reported as never retrieved.
            self.answer.set_result(b"")


class AnsweringStream(asyncio.Protocol):
    """The side that accepted: waits for one frame, hands it on, sends what comes back."""

    def __init__(
        self,
        *,
        max_frame: int,
        timeout: float,
        received: Callable[[AnsweringStream, bytes], None],
        rejected: Callable[[PacketRejected], None],
        opened: Callable[[AnsweringStream], bool],
        closed: Callable[[AnsweringStream], None],
    ) -> None:
        self._frames = FrameBuffer(max_frame=max_frame)
        self._timeout = timeout
        self._received = received
        self._rejected = rejected
        self._opened = opened
        self._closed = closed
        self._asked = False
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def peer(self) -> tuple[str, int]:
        """Where the connection came from."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return (name[0], name[1]) if name else ("", 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        if not self._opened(self):
            transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(self._timeout, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._asked:
            return
        try:
            packet = self._frames.feed(data)
        except PacketRejected as error:
            self._asked = True
            self._rejected(error)
            self.close()
            return
        if packet is not None:
            self._asked = True
            self._received(self, packet)

    def send(self, packet: bytes) -> None:
        """Answer, and close once it is written."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(packet))
            self._transport.close()

    def close(self) -> None:
        """End without an answer."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._closed(self)
