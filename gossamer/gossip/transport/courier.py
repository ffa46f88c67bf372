"""What goes through the sockets: envelopes sealed and opened, datagrams, questions and answers on streams.

Rules: 1. A packet that does not open, was seen before, or is this node's own reaches nobody: it is counted by
reason, and logged once a minute for each.  2. Packets are handled in the turn they arrive, so nothing queues
up in here.  3. The sockets belong to a port linked to the server: they close however the server ends, also
when it is killed, so that its successor finds them free.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog

import gossamer.gossip.steps as steps
from gossamer.clock import Clock
from gossamer.gossip.transport.keyring import Keyring, Opened, ReplayGuard
from gossamer.gossip.transport.sockets import (
    MAX_FRAME,
    AnsweringStream,
    AskingStream,
    Sockets,
    frame,
    open_sockets,
)
from gossamer.gossip.view import Identity
from gossamer.gossip.wire import PacketRejected
from gossamer.network import Address, Network
from gossamer.supervisor import Pid, guarded

log = structlog.get_logger(__name__)

_MAX_STREAMS = 128


class Courier:
    """Made inside the gossip server, which ``deliver`` belongs to; ``counters`` are the view's."""

    def __init__(
        self,
        *,
        keyring: Keyring,
        network: Network,
        clock: Clock,
        identity: Identity,
        counters: Counter[str],
        deliver: Callable[[steps.Input], None],
    ) -> None:
        self._keyring = keyring
        self._network = network
        self._clock = clock
        self._identity = identity
        self._counters = counters
        self._deliver = deliver
        self._guard = ReplayGuard()
        self._complained: dict[str, float] = {}
        self._on_frame = guarded(self._frame_received)
        self._on_bad_frame = guarded(self.reject)
        self._sockets: Sockets | None = None

    async def open(self, address: Address) -> Address:
        """Open the sockets; gives back what was bound.

        Raises:
            GossipAddressError: the address cannot be bound.
        """
        self._sockets = await open_sockets(
            self._network, address, received=guarded(self._on_datagram), answering=self._answering
        )
        return self._sockets.bound

    @property
    def sockets(self) -> Pid | None:
        """The port that owns them."""
        return None if self._sockets is None else self._sockets.pid

    def close(self) -> None:
        if self._sockets is not None:
            self._sockets.close()

    # ---- out --------------------------------------------------------------------------------------------

    def send(self, address: Address, body: bytes) -> None:
        """One datagram."""
        assert self._sockets is not None  # noqa: S101 - opened before anything is sent
        packet = self._seal(body)
        counters = self._counters
        counters["packets_out"] += 1
        counters["bytes_out"] += len(packet)
        try:
            self._sockets.datagrams.sendto(packet, address)
        except (OSError, ValueError) as error:
            # No route, or an address of the wrong family: the same as a lost packet.
            counters["send_failed"] += 1
            self._complain("send_failed", address=address, error=str(error))

    def answer(self, token: object, body: bytes) -> None:
        """Answer a question that came on a stream, if it still waits."""
        assert self._sockets is not None  # noqa: S101 - opened before anything is asked
        stream = self._sockets.streams.get(token) if isinstance(token, int) else None
        if stream is not None:
            stream.send(self._seal(body))

    async def ask(self, action: steps.OpenStream) -> steps.Input:
        """One question to a peer; what came of it."""
        try:
            async with asyncio.timeout(action.timeout):
                transport, stream = await self._network.connect(
                    lambda: AskingStream(max_frame=MAX_FRAME), action.address
                )
                try:
                    transport.write(frame(self._seal(action.body)))
                    packet = await stream.answer
                finally:
                    transport.abort()
            if not packet:
                return steps.StreamFailed(action.token, "closed")
            opened = self._open(packet)
        except ConnectionRefusedError:
            return steps.StreamFailed(action.token, "refused")
        except TimeoutError:
            return steps.StreamFailed(action.token, "timeout")
        except (OSError, ValueError):
            return steps.StreamFailed(action.token, "unreachable")
        except PacketRejected as error:
            self.reject(error, action.address)
            return steps.StreamFailed(action.token, error.reason)
        return steps.StreamReplied(action.token, opened.sender, opened.body)

    # ---- in ---------------------------------------------------------------------------------------------

    def reject(self, error: PacketRejected, source: Any = None) -> None:
        """Count a packet that is none, or none for us."""
        self._counters["rejected." + error.reason] += 1
        self._complain("packet_rejected", reason=error.reason, detail=error.detail, source=source)

    def _on_datagram(self, data: bytes, address: Any) -> None:
        counters = self._counters
        counters["packets_in"] += 1
        counters["bytes_in"] += len(data)
        try:
            opened = self._open(data)
        except PacketRejected as error:
            self.reject(error, address)
            return
        self._deliver(steps.PacketReceived(opened.sender, (address[0], address[1]), opened.body))

    def _answering(self) -> AnsweringStream:
        return AnsweringStream(
            max_frame=MAX_FRAME,
            timeout=steps.STREAM_TIMEOUT,
            received=self._on_frame,
            rejected=self._on_bad_frame,
            opened=self._on_stream,
            closed=self._on_stream_end,
        )

    def _on_stream(self, stream: AnsweringStream) -> bool:
        assert self._sockets is not None  # noqa: S101 - it accepted the stream
        if len(self._sockets.streams) >= _MAX_STREAMS:
            self._counters["rejected.busy"] += 1
            return False
        self._sockets.streams[id(stream)] = stream
        return True

    def _on_stream_end(self, stream: AnsweringStream) -> None:
        if self._sockets is not None:
            self._sockets.streams.pop(id(stream), None)

    def _frame_received(self, stream: AnsweringStream, packet: bytes) -> None:
        try:
            opened = self._open(packet)
        except PacketRejected as error:
            self.reject(error, stream.peer)
            stream.close()
            return
        self._deliver(steps.StreamRequested(id(stream), opened.sender, stream.peer, opened.body))

    # ---- envelopes --------------------------------------------------------------------------------------

    def _seal(self, body: bytes) -> bytes:
        identity = self._identity
        return self._keyring.seal(identity.id, identity.next_number(), self._clock.wall(), body)

    def _open(self, packet: bytes) -> Opened:
        opened = self._keyring.open(packet)
        if opened.sender == self._identity.id:
            raise PacketRejected("own", "a packet of this node came back to it")
        self._guard.admit(opened, self._clock.wall())
        return opened

    def _complain(self, event: str, **facts: Any) -> None:
        """Log once a minute for each kind of trouble; the counters have the rest."""
        key = f"{event} {facts.get('reason')}"
        now = self._clock.monotonic()
        if now - self._complained.get(key, -1e9) >= 60.0:
            self._complained[key] = now
            log.warning(event, **facts)
