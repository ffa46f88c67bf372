"""Frames of gossip streams: four bytes of length and a sealed packet.

Both sides bound what they buffer by the largest frame, the answering side also how long and how many. A
question that is larger than a stranger's frame may be follows an empty packet, which opens the way for it.
"""

from __future__ import annotations

import asyncio

from gossamer.gossip.wire import PacketRejected

_HEAD = 4
MAX_FRAME = 8 * 1024 * 1024
"""Bytes of the largest answer on a stream."""
MAX_QUESTION = 1024 * 1024
"""Bytes of the largest question."""
MAX_STRANGER = 16 * 1024
"""Bytes of the largest frame of one who has not proved to have the key: it is held before it is opened."""


def frame(packet: bytes) -> bytes:
    """Frame a packet for a stream."""
    return len(packet).to_bytes(_HEAD, "big") + packet


class FrameBuffer:
    """Collects bytes until a frame is whole."""

    def __init__(self, *, max_frame: int) -> None:
        self.max_frame = max_frame
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """Add bytes; return the packet once it is whole.

        Raises:
            PacketRejected: ``oversized``, by the length alone; the rest is not waited for.
        """
        self._buffer += data
        if len(self._buffer) < _HEAD:
            return None
        length = int.from_bytes(self._buffer[:_HEAD], "big")
        if length > self.max_frame:
            raise PacketRejected("oversized", f"a frame of {length} bytes, expected at most {self.max_frame}")
        if len(self._buffer) < _HEAD + length:
            return None
        packet = bytes(self._buffer[_HEAD : _HEAD + length])
        del self._buffer[: _HEAD + length]
        return packet


class AskingStream(asyncio.Protocol):
    """Connecting side: sends one frame and waits for one."""

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
            # There may be no waiter any more; an exception would be logged as never retrieved.
            self.answer.set_result(b"")
