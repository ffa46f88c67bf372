"""Persistent actors: processes whose mailbox is a queue, and whose state is kept beside their place in it.

::

    queue ── message ──> handle_message(message, state) ──> state
          <── one entry: the message is done, and the state is this ──

Rules: 1. The entry that settles a message replaces the checkpoint of the consumer group, and does so only
where that is the one that the new state comes from: each message changes the state exactly once, wherever
the actor was killed, and whoever else took itself for the active one.  2. What else a message has done may be
done again: other effects are at least once.  3. One actor of a consumer group is given messages, in the order
of the queue and one at a time; others wait until it is gone.  4. The state in memory is what was read from
the group, or was taken by it; after any other answer it is read again.

Rejected: a lock or a lease for the active one: it protects nothing that is on its way when it ends, and the
comparison of checkpoints needs no clock.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from gossamer.errors import UnavailableError
from gossamer.queues.client import ack, consume, saved
from gossamer.queues.errors import NotHeldError, StaleCheckpointError, UnknownQueueError
from gossamer.queues.values import Job
from gossamer.supervisor import (
    GenServer,
    NoReply,
    NoSuchCallback,
    Stop,
    self_pid,
    send,
    send_after,
)

log = structlog.get_logger(__name__)

_RETRY = 1.0
_NOT_YET = (UnavailableError, UnknownQueueError)
"""At a node that has just started nobody knows yet which queues there are."""


class _Begin(msgspec.Struct, frozen=True):
    """To itself: consume."""


class PersistentActor(GenServer):
    """A GenServer that is started with the name of its queue, and of its consumer group: subclass it, and
    define :meth:`handle_message`, and :meth:`first_state` where it is not None.

    It runs on a node of the cluster, and goes on where the one before it was, on whatever node that ran. A
    message at which it crashes comes again, to the actor that its supervisor starts, until the queue's
    ``retry.max_deliveries``; then it is a dead letter, and has changed nothing. Who defines
    ``handle_info`` calls the one here with what is not its own.
    """

    state_type: Any = Any
    """Type of the state, as ``msgspec`` decodes it: 64 KiB at most as MessagePack."""

    async def init(self, queue: str, *, group: str = "default") -> None:
        """Begin to consume; the starter does not wait for that."""
        self.queue = queue
        self.group = group
        self._state: Any = None
        self._number: int | None = None
        """Of the checkpoint that the state is; None: it has to be read."""
        send(self_pid(), _Begin())

    async def first_state(self) -> Any:
        """Return the state where no message has changed it."""
        return None

    async def handle_message(self, message: Job, state: Any) -> Any:
        """Return the state that comes of a message. It may be called again with the same message, and the
        state that it had the first time, where its answer was not taken."""
        raise NoSuchCallback(type(self).__name__, "handle_message", message)

    async def current(self) -> Any:
        """Return the state as a quorum has it, as soon as one can be asked; also of an actor that waits for
        its turn."""
        while True:
            try:
                found = await saved(self.queue, group=self.group)
            except _NOT_YET as error:
                log.info("actor_state_not_read_yet", queue=self.queue, error=str(error))
                await asyncio.sleep(_RETRY)
            else:
                break
        if found.number:
            self._state = msgspec.msgpack.decode(found.data, type=self.state_type)
        else:
            self._state = await self.first_state()
        self._number = found.number
        return self._state

    async def handle_info(self, message: Any) -> NoReply | Stop | None:
        """Handle a message of the queue; others as GenServer does."""
        match message:
            case Job():
                await self._handle(message)
            case _Begin():
                await self._begin()
            case _:
                return await super().handle_info(message)
        return None

    async def _begin(self) -> None:
        try:
            await consume(self.queue, group=self.group, limit=1, single=True)
        except _NOT_YET as error:
            log.info("actor_not_consuming_yet", queue=self.queue, error=str(error))
            send_after(_RETRY, self_pid(), _Begin())

    async def _handle(self, job: Job) -> None:
        """Handle a message until it is known to be done, or to be no more with this actor."""
        while True:
            if self._number is None:
                await self.current()
            number = self._number or 0
            # Its own copy may be changed in place: it is read again unless it was taken.
            state = await self.handle_message(job, self._state)
            self._number = None
            try:
                await self._commit(job, msgspec.msgpack.encode(state), number)
            except StaleCheckpointError:
                continue
            except NotHeldError:
                return
            self._state, self._number = state, number + 1
            return

    async def _commit(self, job: Job, data: bytes, number: int) -> None:
        """Have a message be done with a state; raise as ``ack``, but for want of a quorum."""
        while True:
            try:
                await ack(job, checkpoint=data, based_on=number)
            except UnavailableError as error:
                log.debug("actor_state_not_taken_yet", queue=self.queue, error=str(error))
                await asyncio.sleep(_RETRY)
            else:
                return
