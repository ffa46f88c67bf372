"""What routing needs of the table and of the links, and no more: the real ones fit, and so do small fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

__all__ = ["DataLinks", "Held", "Keeper", "RouteChange", "RouteTable"]


class RouteChange(Protocol):
    """Rows of one owner that were written and deleted."""

    @property
    def owner(self) -> str: ...

    @property
    def written(self) -> Mapping[Any, Any]: ...

    @property
    def deleted(self) -> Iterable[Any]: ...


class RouteTable(Protocol):
    """The ``routes`` table: key the filter, one row for each node that has a subscriber of it."""

    def write(self, key: Any, value: Any, /) -> int: ...

    def delete(self, key: Any, /) -> int: ...

    def rows_of(self, owner: str, /) -> Mapping[Any, Any]: ...

    def owners(self) -> list[str]: ...

    def is_visible(self, number: int, /) -> bool: ...

    def when_visible(self, number: int, then: Callable[[bool], object], /, timeout: float | None) -> None: ...

    def behind(self, number: int, /) -> list[str]: ...

    def subscribe_batches(self, callback: Callable[[Any], None], /, *, own: bool = True) -> Any: ...


class DataLinks(Protocol):
    """The links to other nodes."""

    def send(self, peer: str, purpose: Any, frame: bytes, reliable: bool = True, /) -> int: ...

    def done(self, frame: Any, /) -> None: ...

    def on_frame(self, purpose: Any, receiver: Any, /) -> None: ...

    def on_ack(self, purpose: Any, callback: Callable[[str, int], None], /) -> None: ...

    def refresh_with(self, purpose: Any, refresh: Callable[[bytes, float], bytes], /) -> None: ...

    def subscribe(self, subscriber: Any, /) -> None: ...


class Held(Protocol):
    """Records that were taken but whose effect is not complete yet."""

    def then(self, callback: Callable[[], object], /) -> None:
        """Call ``callback`` when it is, in the order of these calls."""


class Keeper(Protocol):
    """Whoever keeps what the lasting sessions of a node that is away want; see ``Router.keep_with``."""

    def up(self, peer: str, /) -> bool:
        """``peer`` is back, or new; True: nothing is kept for it, and nothing that comes now need be."""

    def down(self, peer: str, life: int, /) -> None:
        """``peer`` went down in that life of its: from now on :meth:`take` is told what comes for it."""

    def gone(self, peer: str, /) -> None:
        """``peer`` went for good: nothing is kept for it any more."""

    def take(self, peer: str, record: bytes, on_safe: Callable[[bool], None], /) -> None:
        """Keep acknowledged records, and say when they are safe; never within this call."""

    def left(self, peer: str, number: int, records: bytes, waiting: list[Callable[[bool], None]], /) -> int:
        """What ``peer`` had not acknowledged of the frame of that number (0: it was never sent); how many of
        the messages are not kept, for nobody lasting there wants them."""

    def wanted(self, peer: str, topic_filter: str, lasting: bool, /) -> None:
        """A lasting session of ``peer`` has come to want a filter, or none does so any more."""
