"""MQTT over WebSocket: stands between the socket and a channel, to each of which it looks like the other.

The protocol is the business of ``websockets``' sans-I/O half; here frames become reads and writes become
frames. One write of the channel is one binary frame, one flush of it one write to the socket.

Rules (MQTT 5.0, 6): 1. Data frames are binary; another kind ends the connection ([MQTT-6.0.0-1]).  2. Packets
need not be aligned with frames ([MQTT-6.0.0-2]).  3. A client names the subprotocol ``mqtt``, and so does the
answer ([MQTT-6.0.0-3], [MQTT-6.0.0-4]).  4. Nothing is put together here, so nothing is held but the frame
that is coming in, of bounded size. Compression is not offered: it costs more than it saves on small packets.
5. A browser connects for whatever page it shows, and says which (``Origin``, RFC 6455, 10.2): the page must
be of the same host, or be named by the listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, cast
from urllib.parse import urlsplit

from websockets.exceptions import NegotiationError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from gossamer.mqtt.connection.channel import Channel

SUBPROTOCOLS = (Subprotocol("mqtt"), Subprotocol("mqttv3.1"))


def _choose(_protocol: ServerProtocol, offered: Iterable[Subprotocol]) -> Subprotocol:
    names = list(offered)
    for name in SUBPROTOCOLS:
        if name in names:
            return name
    raise NegotiationError("expected subprotocol mqtt")


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class WebSocket(asyncio.Transport, asyncio.Protocol):
    """The channel's transport and the socket's protocol; see the module."""

    def __init__(self, channel: Channel, *, path: str, origins: Collection[str], max_frame: int) -> None:
        super().__init__()
        self._channel = channel
        self._path = path
        self._origins = origins
        self._max_frame = max_frame
        self._socket: asyncio.Transport = cast("Any", None)
        self._web: ServerProtocol = cast("Any", None)
        self._closing = False

    # As the socket's protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        self._web = ServerProtocol(
            subprotocols=list(SUBPROTOCOLS), select_subprotocol=_choose, max_size=self._max_frame
        )
        self._channel.connection_made(self)

    def data_received(self, data: bytes) -> None:
        web, channel = self._web, self._channel
        # A frame that is not whole is held here; its bytes count again once the channel has them.
        if not channel.is_up and (self.is_closing() or not channel.listener.hold(channel, len(data))):
            return
        web.receive_data(data)
        for event in web.events_received():
            if isinstance(event, Request):
                if web.eof_sent:
                    # What came behind it is no frame, so that it was given up before it was answered.
                    self.abort()
                    return
                self._answer(event)
            elif isinstance(event, Frame):
                if event.opcode is Opcode.BINARY or event.opcode is Opcode.CONT:
                    if event.data:
                        self._channel.data_received(bytes(event.data))
                elif event.opcode is Opcode.TEXT:
                    web.fail(1003, "MQTT is binary")
        self._send()
        if web.state is State.CLOSED or web.close_expected():
            self._socket.close()

    def eof_received(self) -> bool:
        self._web.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._channel.connection_lost(exc)

    def pause_writing(self) -> None:
        self._channel.pause_writing()

    def resume_writing(self) -> None:
        self._channel.resume_writing()

    def _answer(self, request: Request) -> None:
        web = self._web
        if request.path.partition("?")[0] != self._path:
            response = web.reject(404, f"MQTT is at {self._path}\n")
        elif self._is_foreign(request):
            self._channel.listener.refused("origin")
            response = web.reject(403, "this page may not connect; name it in the listener's origins\n")
        else:
            response = web.accept(request)
        web.send_response(response)

    def _is_foreign(self, request: Request) -> bool:
        """Return whether a browser asks for a page that may not connect."""
        origins, hosts = request.headers.get_all("Origin"), request.headers.get_all("Host")
        if not origins or "*" in self._origins or (len(origins) == 1 and origins[0] in self._origins):
            return False
        return len(origins) != 1 or [_host_of(origins[0])] != [_host_of(f"//{host}") for host in hosts]

    def _send(self) -> None:
        out = [piece for piece in self._web.data_to_send() if piece]
        if out and not self._socket.is_closing():
            self._socket.write(out[0] if len(out) == 1 else b"".join(out))

    # As the channel's transport.

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._web.state is State.OPEN:
            self._web.send_binary(data)
            self._send()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._web.state is State.OPEN:
            self._web.send_close(1000)
            self._send()
        self._socket.close()

    def abort(self) -> None:
        self._closing = True
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._closing or self._socket.is_closing()

    def pause_reading(self) -> None:
        if not self._socket.is_closing():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if not self._socket.is_closing():
            self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()
