"""Transport interface of links: a bidirectional channel of whole messages.

Writing is *pulled*. A channel owns no queue: its handler calls :meth:`Channel.wake` when something waits, and
once the loop turn is over the channel calls :meth:`Handler.pull`. A handler that has more than one message
wakes the channel again. So frames sent in one turn leave as one message, a slow connection leads to larger
messages rather than to a queue, and the only bounds are the streams' own.

Reading is pushed, all messages of one read at once, and stops between :meth:`Channel.pause` and
:meth:`Channel.resume`; at most one read is delivered after ``pause``.

Every handler gets ``closed`` exactly once, last. :class:`GrpcTransport` (HTTP/2, the default) and
:class:`StreamTransport` (length-framed over any :class:`~gossamer.network.Network`, so also simulated)
implement it. Both open one connection per channel: purposes share neither a socket nor flow control, so that
a burst of data cannot block control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gossamer.distribution.errors import LinkLostError, TlsError
from gossamer.distribution.transport.certificates import Names
from gossamer.network import Address


class Channel(Protocol):
    """Open connection, as its handler sees it."""

    handler: Handler
    """User of the channel; it may install another in its place."""
    limit: int
    """Maximum bytes of a received message; a longer one closes the channel."""

    @property
    def binding(self) -> bytes:
        """Identity of the secure channel below, equal at both ends; empty without one."""

    @property
    def names(self) -> Names | None:
        """Names in the other side's certificate, None where this side does not see one."""

    @property
    def address(self) -> str:
        """The other side's address, for logs."""

    def wake(self) -> None:
        """Pull a waiting message when this loop turn is over."""

    def pause(self) -> None:
        """Stop delivering messages."""

    def resume(self) -> None:
        """Deliver messages again."""

    def close(self) -> None:
        """Close once every message has been pulled and written."""

    def abort(self) -> None:
        """Close now; unwritten messages are lost."""


class Handler(Protocol):
    """User of a channel. All calls are synchronous, on the loop, and must not raise."""

    def received(self, messages: list[bytes], /) -> None:
        """Handle messages."""

    def pull(self) -> bytes | None:
        """Return the next message to write, None if nothing waits."""

    def closed(self, error: LinkLostError | TlsError | None) -> None:
        """Handle the end of the channel; no error: either side closed it in order."""


class Opener(Handler, Protocol):
    """First user of a channel."""

    def opened(self, channel: Channel) -> None:
        """Handle the opening: the channel can be woken."""


class LinkListener(Protocol):
    """Open listening socket."""

    @property
    def address(self) -> Address:
        """Address at which it listens."""

    async def close(self) -> None:
        """Stop listening, and abort accepted channels."""


class LinkTransport(Protocol):
    """Means of connecting nodes."""

    async def listen(self, address: Address, accept: Callable[[], Opener]) -> LinkListener:
        """Accept connections at ``address``, each with a new handler. Raises OSError if that fails."""

    async def connect(self, address: Address, handler: Opener, node: str = "") -> None:
        """Open a channel for ``handler``; a failure is passed to ``handler.closed``.

        With TLS the certificate there must name the host of ``node``, unless given that of ``address``.
        """

    async def close(self) -> None:
        """Close every opened channel; those that are closing may finish their writes."""


def not_reached(shown: str, error: OSError) -> LinkLostError:
    """Build the error of a connection that could not be opened; ``shown`` is the address."""
    kind = "refused" if isinstance(error, ConnectionRefusedError) else "unreachable"
    return LinkLostError(address=shown, kind=kind, detail=error.strerror or str(error))


def show(address: Address) -> str:
    """Format as ``host:port``, with brackets around an IPv6 host."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
