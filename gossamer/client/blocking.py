"""The blocking twin: the same client on a loop in a thread of its own, for code that has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from gossamer.client.blocking_queue import BlockingQueue
from gossamer.client.client import Client
from gossamer.client.keeper import Target
from gossamer.client.subscription import Delivered, OnGap, Subscription
from gossamer.errors import UsageError
from gossamer.supervisor import Destination, Reason

T = TypeVar("T")


class BlockingSubscription:
    """Iterate over it, or ``get`` with a time limit."""

    def __init__(self, client: BlockingClient, subscription: Subscription) -> None:
        self._client = client
        self._subscription = subscription

    @property
    def dropped(self) -> int:
        """As of the async one."""
        return self._subscription.dropped

    @property
    def gaps(self) -> int:
        """As of the async one."""
        return self._subscription.gaps

    def get(self, timeout: float | None = None) -> Delivered:
        """The next message. Raises TimeoutError when none came in ``timeout`` seconds."""
        return self._client._do(asyncio.wait_for(anext(self._subscription), timeout))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivered:
        try:
            return self.get()
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """End it."""

        async def close() -> None:
            self._subscription.close()

        self._client._do(close())


class BlockingClient:
    """``with BlockingClient("data/cluster.json") as client``; arguments and methods as in the async one."""

    def __init__(self, targets: Target | Iterable[Target], **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        # On the loop of the thread, since what it is made of belongs to a loop.
        self._thread = threading.Thread(target=self._run, name="gossamer client", daemon=True)
        self._thread.start()

        async def make() -> Client:
            return Client(targets, **options)

        try:
            self._client = self._do(make())
            self._do(self._client.start())
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything, the thread too."""
        if self._thread.is_alive():
            self._do(self._client.stop())
            self._end()

    @property
    def attached_to(self) -> str | None:
        """The name of the node, None while there is none."""
        return self._client.attached_to

    def publish(self, topic: str, payload: bytes | str, qos: int = 0, *, retain: bool = False) -> None:
        """As :meth:`Client.publish`."""
        self._do(self._client.publish(topic, payload, qos, retain=retain))

    def subscribe(
        self, topic_filter: str, qos: int = 0, *, retain_handling: int = 0, on_gap: OnGap | None = None
    ) -> BlockingSubscription:
        """As :meth:`Client.subscribe`; the result is a plain iterator. ``on_gap`` runs in another thread."""
        work = self._client.subscribe(topic_filter, qos, retain_handling=retain_handling, on_gap=on_gap)
        return BlockingSubscription(self, self._do(work))

    def queue(self, name: str) -> BlockingQueue:
        """As :meth:`Client.queue`: iterate over ``queue(name).consume()``, and settle each at the end of its
        ``with``."""
        return BlockingQueue(self._do, self._client.queue(name))

    def call(self, destination: Destination, request: object, timeout: float | None = 5.0) -> Any:
        """As :meth:`Client.call`."""
        return self._do(self._client.call(destination, request, timeout))

    def cast(self, destination: Destination, request: object) -> None:
        """As :meth:`Client.cast`."""
        self._do(self._client.cast(destination, request))

    def send(self, destination: Destination, message: object) -> bool:
        """As :meth:`Client.send`."""
        return self._do(self._client.send(destination, message))

    def wait_down(self, destination: Destination, timeout: float | None = None) -> Reason:
        """Wait until an actor ends; why. Raises TimeoutError."""

        async def wait() -> Reason:
            ended = await self._client.monitor(destination)
            return await asyncio.wait_for(ended, timeout)

        return self._do(wait())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            work.close()
            raise UsageError("a blocking client is used from other threads than its own, and until close()")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
