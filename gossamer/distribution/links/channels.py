"""The two ends of a channel: a handshake, then the traffic of one stream.

:class:`Outbound` calls, :class:`Inbound` is called. Members call to send: frames go out on the one, come in
on the other, acks travel against them. A hidden node is never called: it opens one channel to send and one
to be sent to (``pull``), which is all the difference.

Neither end decides anything but what to do with the next bytes: membership and sessions are the
:class:`Hub`'s, numbers are the stream's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gossamer.distribution.errors import Ending, LinkLostError, WireError
from gossamer.distribution.links.handshake import Acceptor, Admitted, Initiator, Opened, Step
from gossamer.distribution.links.hub import Hub
from gossamer.distribution.links.traffic import Peer, Receiving, Sending
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
        self._traffic: Sending | Receiving | None = None

    def close(self) -> None:
        """End in order."""
        if self._channel:
            self._channel.close()

    def abort(self) -> None:
        """End now."""
        if self._traffic:
            self._traffic.abort()
        if self._channel:
            self._channel.abort()

    def next_message(self) -> bytes | None:
        if self._traffic is not None and self._greeting is None:
            return self._traffic.next_message()
        greeting, self._greeting = self._greeting, None
        return greeting

    def message(self, data: bytes) -> None:
        try:
            if self._traffic is not None:
                self._traffic.message(data)
            elif self._channel is not None and self._handshake is not None:
                self._step(self._handshake.receive(data), self._channel)
        except WireError as error:
            self._fail(error)

    def _step(self, step: Step, channel: Channel) -> None:
        """One step of the handshake. Raises WireError."""
        self._greeting = step.send
        if step.opened is not None:
            self._handshake = None
            channel.limit = self._hub.max_message
            self._open(step.opened, channel)
            channel.wake()
        elif step.error is not None:
            self._ending = step.error
            channel.close()
        else:
            channel.wake()

    def _open(self, opened: Opened, channel: Channel) -> None:
        raise NotImplementedError

    def _run(self, peer: Peer, purpose: Purpose, channel: Channel, opened: Opened, *, sends: bool) -> None:
        """The channel is open: let frames flow. Raises WireError."""
        if sends:
            sending = Sending(self._hub, peer, purpose, channel, opened.received)
            self._traffic = sending
            self._hub.sends(sending)
        else:
            receiving = Receiving(self._hub, peer, purpose, channel, self._fail)
            self._traffic = receiving
            self._hub.receives(receiving)

    def _stopped(self) -> None:
        """The channel is gone."""
        self._channel = None
        traffic = self._traffic
        if traffic is not None:
            traffic.closed()
            if isinstance(traffic, Sending):
                self._hub.sends_no_more(traffic)
            else:
                self._hub.receives_no_more(traffic)

    def _fail(self, error: WireError) -> None:
        self._ending = error
        self.abort()


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

    def closed(self, error: LinkLostError | None) -> None:
        self.over = True
        self._stopped()
        self._on_end(self, self._ending or error)

    def _open(self, opened: Opened, channel: Channel) -> None:
        if opened.creation == self.peer.creation:
            self._run(self.peer, self.purpose, channel, opened, sends=not self._pull)
        self._on_open(self, opened)


class Inbound(_End):
    """The called end."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self.peer: Peer | None = None
        self.address = "unknown"
        """Where the caller is."""
        self._hello: Hello | None = None
        self._caller = ""
        self._timer: asyncio.TimerHandle | None = None
        self._strange = False

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        self.address = channel.address
        self._strange = True
        if not self._hub.door.strange(1):
            self._fail(
                WireError(where="listener", expected="fewer callers that are not known yet", got="one more")
            )
            return
        self._handshake = self._hub.acceptor(self._admit, channel.binding)
        # A stranger that says nothing may not hold a connection.
        self._timer = asyncio.get_running_loop().call_later(self._hub.handshake_timeout, self._late)

    def closed(self, error: LinkLostError | None) -> None:
        if isinstance(self._handshake, Acceptor):
            self._caller = self._handshake.caller
        self._known()
        self._stopped()
        self._hub.door.turned_away(self._caller, self.address, self._ending or error)

    def _open(self, opened: Opened, channel: Channel) -> None:
        self._known()
        if self.peer is not None and self._hello is not None:
            purpose: Purpose = self._hello.purpose  # type: ignore[assignment]  # the acceptor has checked it
            self._run(self.peer, purpose, channel, opened, sends=self._hello.pull is not None)

    def _admit(self, hello: Hello) -> Admitted:
        peer = self._hub.door.admit(hello, self.address)
        self.peer, self._hello, self._caller = peer, hello, hello.name
        if hello.pull is not None:
            return Admitted(0, peer.session)
        return Admitted(peer.receives[hello.purpose].connected(), peer.session)  # type: ignore[index]

    def _late(self) -> None:
        self._timer = None
        seconds = self._hub.handshake_timeout
        self._fail(WireError(where="handshake", expected=f"to be done in {seconds:g} s", got="silence"))

    def _known(self) -> None:
        """It is no stranger any more, or gone."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._strange:
            self._strange = False
            self._hub.door.strange(-1)


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

    anybody = Peer(ANYBODY, 0, address, session=1, retain=0, queue=0)
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
