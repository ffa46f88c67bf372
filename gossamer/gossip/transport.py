"""Datagrams and streams of one gossip server: sockets, envelopes, requests and answers.

A stream is one request, one answer, one connection, in frames: see ``frames``.

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
import os
import socket
from collections import Counter
from collections.abc import Callable, Collection
from typing import cast

import structlog

import gossamer.gossip.steps as steps
from gossamer.clock import Clock
from gossamer.errors import UsageError
from gossamer.gossip.frames import MAX_FRAME, MAX_QUESTION, MAX_STRANGER, AskingStream, FrameBuffer, frame
from gossamer.gossip.keyring import OVERHEAD, Keyring, Opened, ReplayGuard, answer_to, at_address, instance
from gossamer.gossip.view import Identity
from gossamer.gossip.wire import PacketRejected
from gossamer.log_limit import LogLimit
from gossamer.network import Address, Listener, Network
from gossamer.places import Places
from gossamer.supervisor import Port, guarded, self_pid

log = structlog.get_logger(__name__)

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
        # asyncio's text repeats the address.
        f"UDP and TCP cannot be bound ({os.strerror(problem.errno or 0)})",
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
        self._streams = Places(_MAX_STREAMS, _MAX_STREAMS_EACH, self._evict)
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
        """Answer a request on a stream, if it is still open."""
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
                    # The address that was reached, if the action has a name.
                    host, port, *_ = transport.get_extra_info("peername") or action.address
                    there = at_address((host, port))
                    if len(action.body) + OVERHEAD > MAX_STRANGER:
                        transport.write(frame(self._seal(self._identity.next_number(), b"", there)))
                    number = self._identity.next_number()
                    transport.write(frame(self._seal(number, action.body, there)))
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
            self._turned_away(stream, full)
        return not full

    def _evict(self, stream: _AnsweringStream) -> None:
        if not stream.answered:
            self._turned_away(stream, f"{_MAX_STREAMS} callers, most of them of this address")
        stream.close()

    def _turned_away(self, stream: _AnsweringStream, full: str) -> None:
        self._counters["rejected.busy"] += 1
        self._complain("streams_turned_away", source=stream.peer, open=full)

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
            if not opened.body:
                stream.frames.max_frame = MAX_QUESTION
                packet = stream.frames.feed(b"")
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
        self.frames = FrameBuffer(max_frame=MAX_STRANGER)
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
            self._timer = asyncio.get_running_loop().call_later(steps.STREAM_TIMEOUT, self._too_late)
        else:
            self.close()

    def data_received(self, data: bytes) -> None:
        if not self.asked:
            self._owner.read(self, data)

    def _too_late(self) -> None:
        if not self.asked:
            problem = PacketRejected("unfinished", f"no whole question within {steps.STREAM_TIMEOUT:g} s")
            self._owner.reject(problem, self.peer)
        self.close()

    def send(self, packet: bytes) -> None:
        """Send the answer, and close once it is written."""
        if not self._transport.is_closing():
            self._transport.write(frame(packet))
            self._transport.close()

    @property
    def answered(self) -> bool:
        """True once the whole answer has left: its place is about to be free."""
        return self._transport.is_closing() and not self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close at once, also without an answer."""
        self.asked = True
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._owner.ended(self)
