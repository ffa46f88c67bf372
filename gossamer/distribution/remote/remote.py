"""Remote processes: the signals of the supervisor, carried over the control stream.

One frame a signal. The envelope (which signal, from whom, to whom) is decoded and checked by itself; what the
user sent travels inside as a term and is decoded after it, so that a message of an unknown type still has an
address to be refused at.

Rules: 1. One control stream per peer carries all kinds of signals, so order per (sender, receiver) holds,
over reconnects too.  2. A node that is not up is not connected: signals to it are refused at once.  3. The
end of a session is the loss of the node: ``noconnection`` on both sides.
4. A peer speaks for its own processes of this session's creation only; a stale or foreign source is dropped
and counted.  5. What cannot be encoded fails where the caller can see it; where nobody can (a reason, a
reply), it is replaced by text that says so.
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
"""The field of a signal that holds a term."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Signal] = msgspec.msgpack.Decoder(Signal)


@dataclass(slots=True)
class RouterCounts:
    """Signals that went, came, and did not get through."""

    sent: int = 0
    received: int = 0
    stale: int = 0
    """From a process that the peer may not speak for."""
    unreadable: int = 0
    """With an envelope or a term that could not be decoded."""


class RemoteProcesses:
    """The router of a runtime. Making it connects it."""

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution
        self.counts = RouterCounts()
        self.names: object = None
        """The view of the global names, where they are served."""
        self._runtime: Runtime = distribution.runtime
        self._runtime.remote = self
        distribution.subscribe(self._event, hidden=True)
        distribution.on_frame("control", self._frame)

    # Out.

    def route(self, signal: Signal) -> bool:
        """Send a signal to its node; False when that node is not connected.

        Raises:
            TermError: a message or request that may not travel.
            FrameTooLargeError: one that is too long.
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
            # The two that are frequent are made faster than replace() makes the others.
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
        """The signal in a frame; None when it is not to be delivered. Raises WireError."""
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
        # What it says of an earlier creation can only be that the process is not there.
        answer = isinstance(signal, DownSignal) or (isinstance(signal, ExitSignal) and signal.linked)
        return source.node == peer and (answer or source.creation == self.distribution.creation_of(peer))

    def _refuse(self, signal: Signal, error: TermError) -> Signal | None:
        """What a signal becomes whose term cannot be read here."""
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
    """The process that the peer claims to speak for."""
    match signal:
        case CallSignal():
            return signal.caller
        case LinkSignal() | UnlinkSignal() | ExitSignal() | MonitorSignal():
            return signal.source
        case DownSignal():
            return signal.pid
    return None


def _substitute(signal: Signal, error: TermError | FrameTooLargeError) -> Signal | None:
    """What goes instead of a signal that cannot; None where the sender can be told."""
    match signal:
        case ReplySignal(node, ref, _, _):
            return ReplySignal(node, ref, ("unsendable", str(error)), failed=True)
        case ExitSignal() | DownSignal():
            shown = describe(signal.reason)[:1000].encode(errors="replace").decode()
            return msgspec.structs.replace(signal, reason=("unsendable", shown))
    return None
