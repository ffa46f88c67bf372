"""The two ends of a channel in its handshake, after which :mod:`~gossamer.distribution.links.traffic` has it.

:class:`Outbound` calls, :class:`Inbound` is called. Members call to send: frames go out on the one, come in
on the other, acks travel against them. A hidden node is never called: it opens one channel to send and one
to be sent to (``pull``), which is all the difference.

Neither end decides anything but what to do with the next bytes: membership and sessions are the
:class:`Hub`'s, numbers are the stream's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gossamer.distribution.errors import Ending, LinkLostError, WireError
from gossamer.distribution.links.admission import STRANGERS
from gossamer.distribution.links.handshake import Acceptor, Admitted, Initiator, Opened, Step
from gossamer.distribution.links.hub import Hub
from gossamer.distribution.links.traffic import Peer, Receiving, Sending, Traffic
from gossamer.distribution.transport.transport import Channel, show
from gossamer.distribution.wire import ANYBODY, Hello, Purpose
from gossamer.network import Address


class _End:
    """What both ends do: greet, then let the traffic run."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._channel: Channel | None = None
        self._handshake: Initiator | Acceptor | None = None
        self._greeting: bytes | None = None
        self._ending: Ending = None
        self._traffic: Traffic | None = None

    def abort(self, error: WireError | None = None) -> None:
        """End now; over ``error``, which is what the other side may not send."""
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
                self._step(self._handshake.receive(data), self._channel)

    def _step(self, step: Step, channel: Channel) -> None:
        self._greeting = step.send
        if step.error is not None:
            self._handshake, self._ending = None, step.error
            channel.close()
            return
        channel.wake()
        if step.opened is not None:
            self._handshake = None
            channel.limit = self._hub.max_message
            try:
                self._open(step.opened, channel)
            except WireError as error:
                self.abort(error)

    def _open(self, opened: Opened, channel: Channel) -> None:
        raise NotImplementedError

    def _run(self, peer: Peer, purpose: Purpose, channel: Channel, opened: Opened, *, sends: bool) -> None:
        """Let frames flow. Raises WireError."""
        if sends:
            peer.sends[purpose].resume(opened.received)
        kind = Sending if sends else Receiving
        self._traffic = kind(self._hub, peer, purpose, channel, self._ended)
        self._hub.opened(self._traffic)

    def closed(self, error: LinkLostError | None) -> None:
        if self._traffic is not None:
            self._traffic.closed(error)
        else:
            self._ended(self._ending or error)

    def _ended(self, error: Ending) -> None:
        """The channel is gone."""
        if self._traffic is not None:
            self._hub.closed(self._traffic)


class Outbound(_End):
    """The calling end. ``on_open`` and ``on_end`` tell the link process; with ``pull`` frames come in."""

    def __init__(
        self,
        hub: Hub,
        peer: Peer,
        purpose: Purpose,
        *,
        on_open: Callable[[Outbound, Opened], None],
        on_end: Callable[[Outbound, Ending], None],
        pull: bool = False,
    ) -> None:
        super().__init__(hub)
        self.peer = peer
        self.purpose: Purpose = purpose
        self._pull = pull
        self._on_open = on_open
        self._on_end = on_end
        self.over = False
        """The channel has ended, or could not be opened."""

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        self._handshake = self._hub.initiator(self.peer, self.purpose, channel.binding, pull=self._pull)
        self._greeting = self._handshake.hello
        channel.wake()

    def close(self) -> None:
        """End in order."""
        if self._channel is not None:
            self._channel.close()

    def _ended(self, error: Ending) -> None:
        self.over = True
        super()._ended(error)
        self._on_end(self, error)

    def _open(self, opened: Opened, channel: Channel) -> None:
        if opened.creation == self.peer.creation:
            self._run(self.peer, self.purpose, channel, opened, sends=not self._pull)
        self._on_open(self, opened)


class Inbound(_End):
    """The called end."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self.address = "unknown"
        """Where the caller is."""
        self._caller = ""
        self._admitted: tuple[Peer, Hello] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        self.address = channel.address
        strangers = self._hub.door.strangers
        strangers.add(self)
        if len(strangers) > STRANGERS:
            expected = "fewer callers that are not known yet"
            self.abort(WireError(where="listener", expected=expected, got="one more"))
            return
        self._handshake = self._hub.acceptor(self._admit, channel.binding)
        # A stranger that says nothing may not hold a connection.
        self._timer = asyncio.get_running_loop().call_later(self._hub.handshake_timeout, self._late)

    def received(self, messages: Sequence[bytes]) -> None:
        super().received(messages)
        if isinstance(self._handshake, Acceptor):
            self._caller = self._handshake.caller

    def _ended(self, error: Ending) -> None:
        self._known()
        super()._ended(error)
        self._hub.door.turned_away(self._caller, self.address, error)

    def _open(self, opened: Opened, channel: Channel) -> None:
        self._known()
        if self._admitted is not None:
            peer, hello = self._admitted
            purpose: Purpose = hello.purpose  # type: ignore[assignment]  # the acceptor has checked it
            self._run(peer, purpose, channel, opened, sends=hello.pull is not None)

    def _admit(self, hello: Hello) -> Admitted:
        peer = self._hub.door.admit(hello, self.address)
        self._admitted = peer, hello
        if hello.pull is not None:
            return Admitted(0, peer.session)
        return Admitted(peer.receives[hello.purpose].connected(), peer.session)  # type: ignore[index]

    def _late(self) -> None:
        seconds = self._hub.handshake_timeout
        self.abort(WireError(where="handshake", expected=f"to be done in {seconds:g} s", got="silence"))

    def _known(self) -> None:
        """It is no stranger any more, or gone."""
        self._hub.door.strangers.discard(self)
        if self._timer:
            self._timer.cancel()


async def identify(hub: Hub, address: Address) -> tuple[str, int]:
    """The name and creation of the node that listens at ``address``, asked before the first real call.

    Raises:
        LinkLostError: nobody is there, or nobody answers within the time of a handshake.
        HandshakeError: it is of another env or version, or no node.
    """
    answer: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    def on_open(_question: Outbound, opened: Opened) -> None:
        if not answer.done():
            answer.set_result((opened.peer, opened.creation))

    def on_end(_question: Outbound, error: Ending) -> None:
        if not answer.done():
            detail = "closed without an answer"
            answer.set_exception(error or LinkLostError(address=show(address), kind="reset", detail=detail))

    anybody = Peer(ANYBODY, 0, address, session=1)
    question = Outbound(hub, anybody, "control", on_open=on_open, on_end=on_end)
    try:
        async with asyncio.timeout(hub.handshake_timeout):
            await hub.transport.connect(address, question)
            return await answer
    except TimeoutError:
        detail = f"no answer in {hub.handshake_timeout:g} s"
        raise LinkLostError(address=show(address), kind="unreachable", detail=detail) from None
    finally:
        answer.cancel()
        question.abort()
