"""Remote processes: the supervisor's signals, carried over the control stream.

One frame per signal. The envelope (kind, source, destination) is decoded and checked by itself; the user's
value travels inside as a term and is decoded after it, so that a message of an unknown type can still be
refused to its sender.

Rules: 1. One control stream per peer carries all kinds of signals, so order per (sender, receiver) holds,
over reconnects too.  2. A node that is not up is not connected: signals to it are refused at once.  3. The
end of a session counts as the loss of the node: ``noconnection`` on both sides.
4. A peer may only send as its own processes of this session's creation; a stale or foreign source is dropped
and counted.  5. A value that cannot be encoded raises in the caller; where there is none (a reason, a reply),
it is replaced by text that says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import structlog

from gossamer.distribution.distribution import Distribution
from gossamer.distribution.errors import FrameTooLargeError, TermError, WireError
from gossamer.distribution.events import Event, Frame, NodeDown
from gossamer.distribution.remote.terms import decode_term, encode_term
from gossamer.supervisor import Pid, Runtime, describe
from gossamer.supervisor.process.signals import (
    CallSignal,
    DownSignal,
    ExitSignal,
    LinkSignal,
    MonitorSignal,
    ReplySignal,
    SendSignal,
    Signal,
    UnlinkSignal,
)

log = structlog.get_logger(__name__)

_TERMS: dict[type, str] = {
    SendSignal: "message",
    CallSignal: "request",
    ReplySignal: "value",
    ExitSignal: "reason",
    DownSignal: "reason",
}
"""Field of each signal that holds a term."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Signal] = msgspec.msgpack.Decoder(Signal)


@dataclass(slots=True)
class RouterCounts:
    """Counts of signals sent, received and rejected."""

    sent: int = 0
    received: int = 0
    stale: int = 0
    """Signals from a source that does not belong to the peer."""
    unreadable: int = 0
    """Signals with an envelope or a term that could not be decoded."""


class RemoteProcesses:
    """Router of a runtime's remote signals; constructing it connects it to the runtime."""

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution
        self.counts = RouterCounts()
        self.names: object = None
        """View of the global names, if they are served."""
        self.consistent: object = None
        """Registers names with one holder whatever happens, if consensus is served."""
        self._runtime: Runtime = distribution.runtime
        self._runtime.remote = self
        distribution.subscribe(self._event, hidden=True)
        distribution.on_frame("control", self._frame)

    # Out.

    def route(self, signal: Signal) -> bool:
        """Send a signal to its node; return False if that node is not connected.

        Raises:
            TermError: the message or request may not leave the node.
            FrameTooLargeError: it is too long.
        """
        node = signal.node
        peer = self.distribution.peers.get(node)
        if peer is None or not peer.up:
            return False
        try:
            self._send(node, signal)
        except (TermError, FrameTooLargeError) as error:
            substitute = _substitute(signal, error)
            if substitute is None:
                raise
            log.warning("unsendable", node=node, signal=type(signal).__name__, error=str(error))
            self._send(node, substitute)
        return True

    def _send(self, node: str, signal: Signal) -> None:
        match signal:
            # The two frequent ones are built directly, faster than by replace().
            case SendSignal(_, to, message):
                signal = SendSignal("", to, encode_term(message))
            case CallSignal(_, to, ref, caller, request):
                signal = CallSignal("", to, ref, caller, encode_term(request))
            case _:
                field = _TERMS.get(type(signal))
                term = {} if field is None else {field: encode_term(getattr(signal, field))}
                signal = msgspec.structs.replace(signal, node="", **term)
        self.distribution.send(node, "control", _encode(signal))
        self.counts.sent += 1

    # In.

    def _frame(self, frame: Frame) -> bool:
        try:
            signal = self._read(frame)
        except WireError as error:
            self.counts.unreadable += 1
            log.error("signal_unreadable", node=frame.peer, error=str(error))
        else:
            if signal is not None:
                self.counts.received += 1
                self._runtime.deliver_remote(signal)
        return True

    def _read(self, frame: Frame) -> Signal | None:
        """Decode the signal in a frame; None if it must not be delivered. Raises WireError."""
        try:
            signal = _decoder.decode(frame.payload)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise WireError(where="control stream", expected="a signal", got=str(error)[:200]) from None
        if not self._speaks_for(frame.peer, signal):
            self.counts.stale += 1
            log.warning(
                "stale_signal",
                node=frame.peer,
                signal=type(signal).__name__,
                source=str(_source(signal)),
                to=str(getattr(signal, "to", "")),
                expected=f"a process of creation {self.distribution.creation_of(frame.peer)}",
            )
            return None
        field = _TERMS.get(type(signal))
        changed: dict[str, object] = {"node": self._runtime.node}
        if field is not None:
            data = getattr(signal, field)
            if not isinstance(data, bytes):
                raise WireError(where="control stream", expected="a term", got=type(data).__name__)
            try:
                changed[field] = decode_term(data)
            except TermError as error:
                self.counts.unreadable += 1
                log.warning(
                    "term_unreadable",
                    node=frame.peer,
                    signal=type(signal).__name__,
                    to=str(getattr(signal, "to", "")),
                    error=str(error),
                )
                return self._refuse(signal, error)
        return msgspec.structs.replace(signal, **changed)

    def _speaks_for(self, peer: str, signal: Signal) -> bool:
        source = _source(signal)
        if source is None:
            return True
        # A signal about an earlier creation can only be that the process does not exist.
        answer = isinstance(signal, DownSignal) or (isinstance(signal, ExitSignal) and signal.linked)
        return source.node == peer and (answer or source.creation == self.distribution.creation_of(peer))

    def _refuse(self, signal: Signal, error: TermError) -> Signal | None:
        """Replace or answer a signal whose term cannot be decoded here."""
        reason, node = ("unreadable", str(error)), self._runtime.node
        match signal:
            case CallSignal(_, _, ref, _, _):
                self.route(ReplySignal(ref.node, ref, reason, failed=True))
            case ReplySignal(_, ref, _, _):
                return ReplySignal(node, ref, reason, failed=True)
            case ExitSignal() | DownSignal():
                return msgspec.structs.replace(signal, node=node, reason=reason)
        return None

    # Nodes.

    def _event(self, event: Event) -> None:
        if isinstance(event, NodeDown):
            self._runtime.node_lost(event.name)


def _source(signal: Signal) -> Pid | None:
    """Return the signal's source process, if it has one."""
    match signal:
        case CallSignal():
            return signal.caller
        case LinkSignal() | UnlinkSignal() | ExitSignal() | MonitorSignal():
            return signal.source
        case DownSignal():
            return signal.pid
    return None


def _substitute(signal: Signal, error: TermError | FrameTooLargeError) -> Signal | None:
    """Return a replacement for a signal that cannot be encoded; None if the sender can get the error."""
    match signal:
        case ReplySignal(node, ref, _, _):
            return ReplySignal(node, ref, ("unsendable", str(error)), failed=True)
        case ExitSignal() | DownSignal():
            shown = describe(signal.reason)[:1000].encode(errors="replace").decode()
            return msgspec.structs.replace(signal, reason=("unsendable", shown))
    return None
