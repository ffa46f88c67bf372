"""The seam under a link: a bidirectional channel of whole messages, whoever carries it.

Writing is *pulled*. A channel owns no queue: its handler calls :meth:`Channel.wake` when something waits,
and once the loop turn is over the channel asks :meth:`Handler.pull`. A handler that has more than goes into
one message wakes the channel again. So frames sent in one turn leave as one message, what a slow connection
delays grows into larger messages rather than into a queue, and the only bounds are the streams' own.

Reading is pushed, all that one read brought at once, and stops between :meth:`Channel.pause` and
:meth:`Channel.resume`; at most what one read brings is handed over after ``pause``.

Every handler gets ``closed`` exactly once, last. :class:`GrpcTransport` (HTTP/2, the default) and
:class:`StreamTransport` (length-framed over any :class:`~gossamer.network.Network`, so also simulated) stand
below this seam. Both open one connection per channel: purposes share neither a socket nor flow control, so
that a flood of data cannot hold up control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gossamer.distribution.errors import LinkLostError
from gossamer.network import Address


class Channel(Protocol):
    """One open connection, as its handler sees it."""

    handler: Handler
    """Who is asked for messages and given them; it may put another in its place."""
    limit: int
    """The longest message, in bytes, taken from the other side; a longer one closes the channel."""

    @property
    def binding(self) -> bytes:
        """What identifies the secure channel below to both ends; empty without one."""

    @property
    def address(self) -> str:
        """The other side's address, for people."""

    def wake(self) -> None:
        """A message waits: pull it when this loop turn is over."""

    def pause(self) -> None:
        """Hand over no more messages."""

    def resume(self) -> None:
        """Hand over messages again."""

    def close(self) -> None:
        """Close when every message has been pulled and written."""

    def abort(self) -> None:
        """Close now; what was not written is lost."""


class Handler(Protocol):
    """The user of a channel. All calls are synchronous, on the loop, and must not raise."""

    def received(self, messages: list[bytes], /) -> None:
        """Messages came."""

    def pull(self) -> bytes | None:
        """The next message to write, None when nothing waits."""

    def closed(self, error: LinkLostError | None) -> None:
        """It is over; without an error when the other side or we closed it in order."""


class Opener(Handler, Protocol):
    """The first user of a channel."""

    def opened(self, channel: Channel) -> None:
        """The channel can be woken."""


class LinkListener(Protocol):
    """An open listening socket."""

    @property
    def address(self) -> Address:
        """Where it listens."""

    async def close(self) -> None:
        """Stop listening, and abort what was accepted."""


class LinkTransport(Protocol):
    """How nodes reach each other."""

    async def listen(self, address: Address, accept: Callable[[], Opener]) -> LinkListener:
        """Give every connection made to ``address`` a handler. Raises OSError where it cannot be bound."""

    async def connect(self, address: Address, handler: Opener) -> None:
        """Open a channel for ``handler``; a failure is told to ``handler.closed``."""

    async def close(self) -> None:
        """Let go of every channel that was opened; those that are closing may write what they have."""


def not_reached(shown: str, error: OSError) -> LinkLostError:
    """Why a connection could not be opened to the address that is shown so."""
    kind = "refused" if isinstance(error, ConnectionRefusedError) else "unreachable"
    return LinkLostError(address=shown, kind=kind, detail=error.strerror or str(error))


def show(address: Address) -> str:
    """``host:port``, with brackets around an IPv6 host."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
