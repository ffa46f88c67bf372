"""What mqtt needs of the dispatcher, as protocols: that of :mod:`gossamer.routes` fits, so does a fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["ForwarderLike", "RouteLike", "RouterLike"]


class ForwarderLike(Protocol):
    """The batch that goes to one remote node."""

    def append(self, record: bytes, /) -> None: ...

    def append_acked(self, record: bytes, on_safe: Callable[[bool], None], /) -> None: ...


class RouteLike(Protocol):
    """Who gets one topic; replaced, never changed."""

    plan: Any

    @property
    def deliveries(self) -> tuple[Any, ...]: ...

    @property
    def peers(self) -> tuple[Any, ...]: ...

    @property
    def groups(self) -> tuple[Any, ...]: ...


class RouterLike(Protocol):
    """The dispatcher of this node."""

    cache: Any

    def resolve(self, topic: bytes, /) -> Any: ...

    def subscribe(self, topic_filter: str, subscriber: Any, options: Any, /) -> Any: ...

    def unsubscribe(self, topic_filter: str, subscriber: Any, /) -> bool: ...

    def unsubscribe_all(self, subscriber: Any, /) -> Any: ...

    def is_visible(self, seq: Any, /) -> bool: ...

    async def visible(self, seq: Any, /) -> Any: ...

    def pick(self, group: Any, publisher: str, topic: str, /) -> Any: ...

    def forwarders(self) -> Any: ...

    def group(self, name: str, /) -> Any: ...

    def on_group_lost(self, callback: Callable[..., Any], /) -> None: ...

    def on_evicted(self, callback: Callable[[Any, str], Any], /) -> None: ...

    def on_group_forward(self, callback: Callable[[str, Any, bytes], Any], /) -> None: ...

    def on_forward(self, callback: Callable[[str, bytes], Any], /) -> None: ...

    def on_congestion(self, callback: Callable[[str, bool], Any], /) -> None: ...
