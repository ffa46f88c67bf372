"""Both ends of a channel during its handshake; then :mod:`~gossamer.distribution.links.traffic` takes over.

:class:`Outbound` calls, :class:`Inbound` is called. Members call to send: frames go out on the one, come in
on the other, acks travel against them. A hidden node is never called: it opens one channel to send and one to
receive (``pull``), which is the only difference.

An end only decides what to do with the next bytes: membership and sessions belong to :class:`LinkManager`,
numbers to the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gossamer.distribution.errors import Ending, LinkLostError, TlsError, WireError
from gossamer.distribution.links.handshake import Handshake, Opened
from gossamer.distribution.links.manager import LinkManager
from gossamer.distribution.links.traffic import PeerSession, Receiving, Sending, Traffic
from gossamer.distribution.transport.transport import Channel, show
from gossamer.distribution.wire import ANYBODY, Hello, Purpose
from gossamer.network import Address


class _End:
    """Base of both ends: run the handshake, then the traffic."""

    def __init__(self, manager: LinkManager) -> None:
        self._manager = manager
        self._channel: Channel | None = None
        self._handshake: Handshake | None = None
        self._greeting: bytes | None = None
        self._ending: Ending = None
        self._caller: Hello | None = None
        self._traffic: Traffic | None = None

    def abort(self, error: WireError | None = None) -> None:
        """End now; ``error``: the other side broke the protocol."""
        self._handshake = None
        self._ending = self._ending or error
        if self._traffic is not None:
            self._traffic.abort()
        elif self._channel is not None:
            self._channel.abort()

    def pull(self) -> bytes | None:
        greeting, self._greeting = self._greeting, None
        if self._traffic is not None:
            self._traffic.channel.handler = self._traffic
            self._traffic.channel.wake()
        return greeting

    def received(self, messages: Sequence[bytes]) -> None:
        for number, data in enumerate(messages):
            if self._traffic is not None:
                self._traffic.received(messages[number:])
                return
            if self._handshake is not None and self._channel is not None:
                self._step(self._handshake, data, self._channel)

    def _step(self, handshake: Handshake, data: bytes, channel: Channel) -> None:
        step = handshake.receive(data)
        self._caller = handshake.hello
        self._greeting = step.send
        if step.error is not None:
            self._handshake, self._ending = None, step.error
            channel.close()
            return
        channel.wake()
        if step.opened is not None:
            self._handshake = None
            channel.limit = self._manager.max_message
            try:
                self._open(step.opened, channel)
            except WireError as error:
                self.abort(error)

    def _open(self, opened: Opened, channel: Channel) -> None:
        raise NotImplementedError

    def _run(
        self, peer: PeerSession, purpose: Purpose, channel: Channel, opened: Opened, *, sends: bool
    ) -> None:
        """Start the traffic of frames. Raises WireError."""
        if opened.seal is None:
            # A call to ANYBODY ends here.
            return
        if sends:
            peer.sends[purpose].resume(opened.received)
        kind = Sending if sends else Receiving
        self._traffic = kind(self._manager.users, peer, purpose, channel, opened.seal, self._ended)
        self._manager.opened(self._traffic)

    def closed(self, error: LinkLostError | TlsError | None) -> None:
        if self._traffic is not None:
            self._traffic.closed(error)
        else:
            self._ended(self._ending or error)

    def _ended(self, error: Ending) -> None:
        """Handle the end of the channel."""
        if self._traffic is not None:
            self._manager.closed(self._traffic)


class Outbound(_End):
    """Calling end. With ``pull`` frames come in. ``tell`` gets the opening, and the ending."""

    def __init__(
        self,
        manager: LinkManager,
        peer: PeerSession,
        purpose: Purpose,
        tell: Callable[[Outbound, Opened | Ending], None],
        *,
        pull: bool = False,
    ) -> None:
        super().__init__(manager)
        self.ready = False
        """True once the handshake has succeeded, also after the end."""
        self.over = False
        """True once the channel has ended, was aborted, or could not be opened."""
        self.purpose: Purpose = purpose
        self._peer = peer
        self._tell = tell
        self._pull = pull

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        if self.over:
            channel.abort()
            return
        name, names = self._peer.name, channel.names
        if names is not None and name != ANYBODY and not names.fit(name):
            self._ending = self._manager.local.not_named(name, names)
            channel.abort()
            return
        self._handshake = self._manager.calling(self._peer, self.purpose, channel.binding, pull=self._pull)
        self._greeting = self._handshake.greeting
        channel.wake()

    def abort(self, error: WireError | None = None) -> None:
        # A channel that opens only now is aborted then.
        self.over = True
        super().abort(error)

    def close(self) -> None:
        """Close in order."""
        if self._channel is not None:
            self._channel.close()

    def _open(self, opened: Opened, channel: Channel) -> None:
        if opened.creation == self._peer.creation:
            self._run(self._peer, self.purpose, channel, opened, sends=not self._pull)
            self.ready = True
        self._tell(self, opened)

    def _ended(self, error: Ending) -> None:
        self.over = True
        super()._ended(error)
        self._tell(self, error)


class Inbound(_End):
    """Called end. A caller that sends nothing is disconnected by a timer."""

    def __init__(self, manager: LinkManager) -> None:
        super().__init__(manager)
        self._acceptor = manager.acceptor
        self.address = "unknown"
        self._timer: asyncio.TimerHandle | None = None

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        self.address = channel.address
        self._timer = asyncio.get_running_loop().call_later(self._manager.handshake_timeout, self._late)
        if not self._acceptor.enter(self, channel.address):
            expected = "fewer callers that are not known yet"
            self.abort(WireError(where="listener", expected=expected, got="one more"))
            return
        self._handshake = self._manager.answering(self._admit, channel.binding)

    def _admit(self, hello: Hello) -> tuple[int, int]:
        names = None if self._channel is None else self._channel.names
        if names is not None and not names.fit(hello.name):
            raise self._manager.local.not_named(hello.name, names)
        peer = self._acceptor.admit(hello, self.address)
        # A pulled stream resumes at the caller's position.
        return 0 if hello.pull is not None else peer.receives[hello.purpose].connected(), peer.session

    def _open(self, opened: Opened, channel: Channel) -> None:
        self._known()
        peer, hello = self._manager.peers.get(opened.peer), self._caller
        if peer is not None and hello is not None:
            self._run(peer, hello.purpose, channel, opened, sends=hello.pull is not None)

    def _ended(self, error: Ending) -> None:
        self._known()
        super()._ended(error)
        self._acceptor.log_ending(self._caller.name if self._caller else "", self.address, error)

    def _late(self) -> None:
        seconds = self._manager.handshake_timeout
        self.abort(WireError(where="handshake", expected=f"to be done in {seconds:g} s", got="silence"))

    def _known(self) -> None:
        """Stop counting the channel as unauthenticated: its handshake is over, or it ended."""
        self._acceptor.unauthenticated.free(self)
        if self._timer is not None:
            self._timer.cancel()


async def identify(manager: LinkManager, address: Address) -> tuple[str, int]:
    """Ask the node that listens at ``address`` for its name and creation, before the first real call.

    Raises:
        LinkLostError: no node listens there, or it does not answer within the time of a handshake.
        HandshakeError: it has another env or version, or is no node.
    """
    answer: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    def tell(_question: Outbound, what: Opened | Ending) -> None:
        if answer.done():
            return
        if isinstance(what, Opened):
            answer.set_result((what.peer, what.creation))
        else:
            answer.set_exception(what or lost("reset", "closed without an answer"))

    def lost(kind: str, detail: str) -> LinkLostError:
        return LinkLostError(address=show(address), kind=kind, detail=detail)

    question = Outbound(manager, PeerSession(ANYBODY, 0, address, session=1), "control", tell)
    try:
        async with asyncio.timeout(manager.handshake_timeout):
            await manager.transport.connect(address, question)
            return await answer
    except TimeoutError:
        raise lost("unreachable", f"no answer in {manager.handshake_timeout:g} s") from None
    finally:
        answer.cancel()
        question.abort()
