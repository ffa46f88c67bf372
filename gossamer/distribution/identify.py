"""Who is there: the name and creation of the node at an address, asked before the first real call.

A channel opened to ``*`` gets a Challenge, which names the node, and is closed. Nothing is proved by it, to
either side; the call that follows, by name, proves both.
"""

from __future__ import annotations

import asyncio

from gossamer.distribution.distribution import Distribution
from gossamer.distribution.errors import LinkLostError, WireError
from gossamer.distribution.links.handshake import refused
from gossamer.distribution.transport.transport import Channel, show
from gossamer.distribution.wire import (
    ANYBODY,
    NONCE_SIZE,
    VERSION,
    Challenge,
    Hello,
    Refuse,
    decode_handshake,
    encode,
)
from gossamer.network import Address


class _Question:
    """The handler of the channel."""

    def __init__(self, hello: Hello, answer: asyncio.Future[Challenge]) -> None:
        self._greeting: bytes | None = encode(hello)
        self._answer = answer
        self.channel: Channel | None = None

    def opened(self, channel: Channel) -> None:
        self.channel = channel
        channel.wake()

    def message(self, data: bytes) -> None:
        try:
            message = decode_handshake(data)
        except WireError as error:
            self._fail(error)
            return
        if isinstance(message, Challenge):
            if not self._answer.done():
                self._answer.set_result(message)
        elif isinstance(message, Refuse):
            self._fail(refused(message))
        else:
            got = type(message).__name__
            self._fail(WireError(where="question for a name", expected="a Challenge", got=got))

    def next_message(self) -> bytes | None:
        greeting, self._greeting = self._greeting, None
        return greeting

    def closed(self, error: LinkLostError | None) -> None:
        self.channel = None
        self._fail(
            error or LinkLostError(address="the node", kind="reset", detail="closed without an answer")
        )

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)


async def identify(distribution: Distribution, address: Address) -> tuple[str, int]:
    """The name and creation of the node that listens at ``address``.

    Raises:
        LinkLostError: nobody is there, or nobody answers within the time of a handshake.
        HandshakeError: it is of another env or version.
        WireError: it is no node.
    """
    answer: asyncio.Future[Challenge] = asyncio.get_running_loop().create_future()
    question = _Question(
        Hello(
            version=VERSION,
            env=distribution.env,
            purpose="control",
            name=distribution.runtime.node,
            creation=distribution.runtime.creation,
            to=ANYBODY,
            session=1,
            yours=0,
            nonce=bytes(NONCE_SIZE),
        ),
        answer,
    )
    try:
        async with asyncio.timeout(distribution.handshake_timeout):
            await distribution.transport.connect(address, question)
            challenge = await answer
    except TimeoutError:
        detail = f"no answer in {distribution.handshake_timeout:g} s"
        raise LinkLostError(address=show(address), kind="unreachable", detail=detail) from None
    finally:
        answer.cancel()
        if question.channel is not None:
            question.channel.abort()
    return challenge.name, challenge.creation
