"""Datagrams and streams of one gossip server: sockets, envelopes, requests and answers.

A stream is one request, one answer, one connection. A frame is four bytes of length and a sealed packet.
Both sides bound what they buffer by the largest frame, the answering side also how long and how many.

Rules: 1. A packet that does not open, was seen before, or is this node's own is dropped: it is counted by
reason, and logged once a minute for each.  2. Packets are handled in the turn they arrive, so nothing queues
up here.  3. The sockets belong to a port linked to the server: they close however the server ends, also when
it is killed, so that its successor finds them free. They do so a turn of the loop later, so binding is
retried for half a second.  4. Both or none: a datagram port whose stream port is taken is released.  5. If an
address cannot be bound, or reached by others, the error names the configuration key.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Collection
from typing import cast

import structlog

import gossamer.gossip.steps as steps
from gossamer.clock import Clock
from gossamer.errors import UsageError
from gossamer.gossip.keyring import Keyring, Opened, ReplayGuard, answer_to, at_address, instance
from gossamer.gossip.view import Identity
from gossamer.gossip.wire import PacketRejected
from gossamer.log_limit import LogLimit
from gossamer.network import Address, Listener, Network
from gossamer.places import Places
from gossamer.supervisor import Port, guarded, self_pid

log = structlog.get_logger(__name__)

_HEAD = 4
MAX_FRAME = 8 * 1024 * 1024
"""Bytes of the largest answer on a stream."""
MAX_QUESTION = 1024 * 1024
"""Bytes of the largest question: it is held before it can be opened, so anybody may send one."""
_BIND_TRIES = 10
_BIND_PAUSE = 0.05
_WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound
_MAX_STREAMS = 128
_MAX_STREAMS_EACH = 64
"""Streams that are open to this node at once, of all addresses and of one."""


class GossipAddressError(UsageError):
    """The gossip address cannot be used."""

    def __init__(self, address: Address, problem: str, advice: str) -> None:
        self.address = address
        super().__init__(f"gossip address {address[0]}:{address[1]}: {problem}; {advice}")


def local_host() -> str:
    """Return the address of the interface with the default route; loopback if there is none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing; it only asks for the route.
        probe.connect(("192.0.2.1", 9))
        host: str = probe.getsockname()[0]
        return host
    return "127.0.0.1"


def frame(packet: bytes) -> bytes:
    """Frame a packet for a stream."""
    return len(packet).to_bytes(_HEAD, "big") + packet


class FrameBuffer:
    """Collects bytes until one frame is whole."""

    def __init__(self, *, max_frame: int) -> None:
        self._max_frame = max_frame
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
        if length > self._max_frame:
            raise PacketRejected(
                "oversized", f"a frame of {length} bytes, expected at most {self._max_frame}"
            )
        if len(self._buffer) < _HEAD + length:
            return None
        return bytes(self._buffer[_HEAD : _HEAD + length])


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


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, Address], object]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._received(data, addr)


async def open_sockets(
    network: Network,
    bind: Address,
    *,
    received: Callable[[bytes, Address], object],
    answering: Callable[[], asyncio.Protocol],
) -> tuple[asyncio.DatagramTransport, Listener]:
    """Bind both sockets to one port.

    Raises:
        GossipAddressError: the address cannot be bound.
    """
    for attempt in range(_BIND_TRIES):
        try:
            datagrams, _ = await network.open_datagram(lambda: _Datagrams(received), bind)
        except OSError as error:
            problem = error
        else:
            name = datagrams.get_extra_info("sockname")
            bound: Address = (name[0], name[1])
            try:
                listener = await network.listen(answering, bound)
            except OSError as error:
                datagrams.abort()
                problem = error
            else:
                return datagrams, listener
        if attempt + 1 < _BIND_TRIES:
            await asyncio.sleep(_BIND_PAUSE)
    raise GossipAddressError(
        bind,
        f"UDP and TCP cannot be bound ({problem.strerror or problem})",
        "set cluster.host to an address of this machine and cluster.port to a free port",
    )


def advertised(bind: Address, bound: Address) -> Address:
    """Return the address for peers: the bound one, or for a wildcard that of the default route."""
    return (local_host() if bind[0] in _WILDCARDS else bound[0], bound[1])


class GossipTransport(Port):
    """Sockets of the gossip server, created inside it; ``counters`` are the view's."""

    def __init__(
        self,
        *,
        keyring: Keyring,
        network: Network,
        clock: Clock,
        identity: Identity,
        counters: Counter[str],
    ) -> None:
        self._keyring = keyring
        self._network = network
        self._clock = clock
        self._identity = identity
        self._counters = counters
        self.on_input: Callable[[steps.Input], None] | None = None
        """Receiver of inputs. None: not set yet, and inputs are lost, as packets may be."""
        self._guard = ReplayGuard()
        self._log = LogLimit(clock.monotonic, lines=1)
        self._streams: Places[_AnsweringStream] = Places(_MAX_STREAMS, _MAX_STREAMS_EACH)
        self._own: frozenset[bytes] = frozenset()
        """Recipients that this node is."""
        # Guarded: an exception in here crashes the server.
        self.read = guarded(self._read)

    async def bind(self, address: Address) -> Address:
        """Open the sockets; return the address for peers.

        Raises:
            GossipAddressError: the address cannot be bound.
        """
        received = guarded(self._on_datagram)
        self._datagrams, self._listener = await open_sockets(
            self._network, address, received=received, answering=lambda: _AnsweringStream(self)
        )
        self.open(label="gossip_sockets", link_to=self_pid())
        return advertised(address, self._listener.address)

    def named(self, member_id: str, address: Address) -> None:
        """Open packets from now on: those for this instance, and those for its address."""
        self._own = frozenset((instance(member_id), at_address(address)))

    def handle_exit(self, source: object, reason: object) -> None:
        # The only link is the server's: its sockets close on its normal end too.
        self.close()

    def on_close(self, reason: object) -> None:
        self._datagrams.abort()
        self._listener.close()
        for stream in list(self._streams):
            stream.close()

    # ---- out --------------------------------------------------------------------------------------------

    def send(self, address: Address, body: bytes, to: str = "") -> None:
        """Send one datagram, to the process at ``address`` or to one instance."""
        counters = self._counters
        try:
            recipient = instance(to) if to else at_address(address)
            packet = self._seal(self._identity.next_number(), body, recipient)
            counters["packets_out"] += 1
            counters["bytes_out"] += len(packet)
            self._datagrams.sendto(packet, address)
        except (OSError, ValueError) as error:
            # No route, or an address of the wrong family: the same as a lost packet.
            counters["send_failed"] += 1
            self._complain("send_failed", address=address, error=str(error))

    def answer(self, token: object, body: bytes) -> None:
        """RequestResult a request on a stream, if it is still open."""
        if isinstance(token, _AnsweringStream) and token in self._streams:
            token.send(self._seal(self._identity.next_number(), body, token.asker))

    async def ask(self, action: steps.OpenStream) -> steps.Input:
        """Send one request to a peer; return the answer or the failure as an input.

        ``timeout`` says that nobody took the connection, ``silent`` that nobody answered on it.
        """
        late = "timeout"
        try:
            async with asyncio.timeout(action.timeout):
                transport, stream = await self._network.connect(
                    lambda: AskingStream(max_frame=MAX_FRAME), action.address
                )
                late = "silent"
                try:
                    number = self._identity.next_number()
                    # The address that was reached, if the action has a name.
                    host, port, *_ = transport.get_extra_info("peername") or action.address
                    transport.write(frame(self._seal(number, action.body, at_address((host, port)))))
                    packet = await stream.answer
                finally:
                    transport.abort()
            if not packet:
                return steps.StreamFailed(action.token, "closed")
            opened = self._open(packet, (answer_to(self._identity.id, number),))
        except ConnectionRefusedError:
            return steps.StreamFailed(action.token, "refused")
        except TimeoutError:
            return steps.StreamFailed(action.token, late)
        except (OSError, ValueError):
            return steps.StreamFailed(action.token, "unreachable")
        except PacketRejected as error:
            self.reject(error, action.address)
            return steps.StreamFailed(action.token, error.reason)
        return steps.StreamReplied(action.token, opened.sender, opened.body)

    # ---- in ---------------------------------------------------------------------------------------------

    def reject(self, error: PacketRejected, source: object = None) -> None:
        """Count and log a rejected packet."""
        self._counters["rejected." + error.reason] += 1
        self._complain("packet_rejected", reason=error.reason, detail=error.detail, source=source)

    def accept(self, stream: _AnsweringStream) -> bool:
        """Accept an incoming stream; return False if there are too many."""
        full = self._streams.take(stream, stream.peer[0])
        if full:
            self._counters["rejected.busy"] += 1
            self._complain("streams_turned_away", source=stream.peer, open=full)
        return not full

    def ended(self, stream: _AnsweringStream) -> None:
        """Forget a closed stream."""
        self._streams.free(stream)

    def _on_datagram(self, data: bytes, address: Address) -> None:
        counters = self._counters
        counters["packets_in"] += 1
        counters["bytes_in"] += len(data)
        if self.on_input is None:
            return
        try:
            opened = self._open(data, self._own)
        except PacketRejected as error:
            self.reject(error, address)
        else:
            self.on_input(steps.PacketReceived(opened.sender, (address[0], address[1]), opened.body))

    def _read(self, stream: _AnsweringStream, data: bytes) -> None:
        try:
            packet = stream.frames.feed(data)
            if packet is None:
                return
            opened = self._open(packet, self._own | stream.reached)
        except PacketRejected as error:
            self.reject(error, stream.peer)
            stream.close()
            return
        stream.asked = True
        stream.asker = answer_to(opened.sender, opened.number)
        if self.on_input is not None:
            self.on_input(steps.StreamRequested(stream, opened.sender, stream.peer, opened.body))

    # ---- envelopes --------------------------------------------------------------------------------------

    def _seal(self, number: int, body: bytes, to: bytes) -> bytes:
        return self._keyring.seal(self._identity.id, number, self._clock.wall(), body, to=to)

    def _open(self, packet: bytes, own: Collection[bytes]) -> Opened:
        opened = self._keyring.open(packet, own=own)
        if opened.sender == self._identity.id:
            raise PacketRejected("own", "a packet of this node came back to it")
        self._guard.admit(opened, self._clock.wall())
        return opened

    def _complain(self, event: str, **facts: object) -> None:
        """Log a problem, once a minute per kind; the counters have the rest."""
        self._log.write(log.warning, event, kind=str(facts.get("reason")), **facts)


class _AnsweringStream(asyncio.Protocol):
    """Accepting side: waits for one frame, passes it on, sends the answer."""

    def __init__(self, owner: GossipTransport) -> None:
        self.frames = FrameBuffer(max_frame=MAX_QUESTION)
        self.asked = False
        """True once a request, or an invalid one, arrived; the rest is not read."""
        self.peer: Address = ("", 0)
        self.reached: frozenset[bytes] = frozenset()
        """The address at which it came, as a recipient: one of several where all are listened at."""
        self.asker = b""
        """Recipient of the answer."""
        self._owner = owner
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if name := transport.get_extra_info("peername"):
            self.peer = (name[0], name[1])
        if name := transport.get_extra_info("sockname"):
            self.reached = frozenset((at_address((name[0], name[1])),))
        if self._owner.accept(self):
            self._timer = asyncio.get_running_loop().call_later(steps.STREAM_TIMEOUT, self.close)
        else:
            self.close()

    def data_received(self, data: bytes) -> None:
        if not self.asked:
            self._owner.read(self, data)

    def send(self, packet: bytes) -> None:
        """Send the answer, and close once it is written."""
        if not self._transport.is_closing():
            self._transport.write(frame(packet))
            self._transport.close()

    def close(self) -> None:
        """Close without an answer."""
        self.asked = True
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._owner.ended(self)
