"""The route index: for each filter, its subscribers here and the nodes with subscribers, found by one match.

A filter's value takes the smallest form that holds it, because there may be millions: an ``int``, the mask of
nodes, if there is no subscriber here; a :class:`Delivery`, if there is one subscriber here and no node; an
:class:`Entry` for everything more. Ints and text are not tracked by the garbage collector, so the routes of
other nodes cost it nothing.

Rules: 1. Nodes are bits; :mod:`gossamer.routes.forwarding.nodes` assigns them.  2. A filter without
subscribers and nodes is not in the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gossamer.routes.delivery import Delivery
from gossamer.routes.index.filters import FilterIndex
from gossamer.routes.kernel import filter_index


class Entry:
    """Subscribers of a filter, where they are more than nodes alone or one subscriber alone."""

    __slots__ = ("local", "mask")

    def __init__(self, mask: int, local: dict[object, Delivery]) -> None:
        self.mask = mask
        self.local = local


Value = int | Delivery | Entry


class RouteIndex:
    """Index of filters: deliveries of this node's subscribers, and masks of other nodes."""

    __slots__ = ("_filters", "_masks", "match", "match_raw")

    def __init__(self) -> None:
        self._filters: FilterIndex[Value] = filter_index()
        # Large masks repeat over many filters and are kept once.
        self._masks: dict[int, int] = {}
        self.match = self._filters.match
        """Returns the values of all filters that match a name."""
        self.match_raw = self._filters.match_raw
        """Does the same for plain names in bytes."""

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, topic_filter: str) -> bool:
        return self._filters.get(topic_filter) is not None

    def add(self, topic_filter: str, delivery: Delivery) -> bool:
        """Add or replace a subscriber's delivery; return whether it is the first subscriber here."""
        value = self._filters.get(topic_filter)
        if value is None:
            self._filters.put(topic_filter, delivery)
            return True
        subscriber = delivery.subscriber
        if type(value) is int:
            self._filters.put(topic_filter, Entry(value, {subscriber: delivery}))
            return True
        if type(value) is Delivery:
            if value.subscriber is subscriber:
                self._filters.put(topic_filter, delivery)
            else:
                both = {value.subscriber: value, subscriber: delivery}
                self._filters.put(topic_filter, Entry(0, both))
            return False
        assert type(value) is Entry  # noqa: S101 - for the type checker
        value.local[subscriber] = delivery
        return False

    def discard(self, topic_filter: str, subscriber: object) -> bool:
        """Remove a subscriber; return whether it was the last one here."""
        value = self._filters.get(topic_filter)
        if type(value) is Delivery:
            if value.subscriber is not subscriber:
                return False
            self._filters.remove(topic_filter)
            return True
        if type(value) is not Entry or value.local.pop(subscriber, None) is None:
            return False
        if value.local:
            if len(value.local) == 1 and not value.mask:
                self._filters.put(topic_filter, next(iter(value.local.values())))
            return False
        self._filters.put(topic_filter, value.mask)
        return True

    def set_bits(self, topic_filter: str, bits: int, wanted: int) -> int | None:
        """Set those of ``bits`` in a filter's mask that are ``wanted``, and clear the others; return the mask
        before, None if nothing changes."""
        value = self._filters.get(topic_filter)
        old = mask_of(value)
        mask = (old & ~bits) | wanted
        if mask == old:
            return None
        mask = self._masks.setdefault(mask, mask)
        if type(value) is Entry:
            if mask or len(value.local) > 1:
                value.mask = mask
            else:
                self._filters.put(topic_filter, next(iter(value.local.values())))
        elif type(value) is Delivery:
            self._filters.put(topic_filter, Entry(mask, {value.subscriber: value}))
        elif mask:
            self._filters.put(topic_filter, mask)
        else:
            self._filters.remove(topic_filter)
        return old

    def local_count(self, topic_filter: str) -> int:
        """Return the number of subscribers here with exactly this filter."""
        return len(tuple(local_of(self._filters.get(topic_filter))))

    def get(self, topic_filter: str) -> Value | None:
        """The value of exactly this filter."""
        return self._filters.get(topic_filter)

    def filters(self) -> Iterator[str]:
        """Yield every filter; the index may change meanwhile, and some changes are seen and some are not."""
        return self._filters.filters()

    def items(self) -> Iterator[tuple[str, int, tuple[Delivery, ...]]]:
        """Yield every filter with its mask of nodes and its deliveries here."""
        for topic_filter, value in self._filters.items():
            yield topic_filter, mask_of(value), tuple(local_of(value))

    def stats(self) -> dict[str, int]:
        """Return the sizes of the parts of the index."""
        return self._filters.stats()


def mask_of(value: Value | None) -> int:
    """Return the mask of nodes in a value."""
    if value is None or type(value) is Delivery:
        return 0
    return value if type(value) is int else value.mask  # type: ignore[union-attr]


def local_of(value: Value | None) -> Iterable[Delivery]:
    """Return the deliveries here in a value."""
    if value is None or type(value) is int:
        return ()
    return (value,) if type(value) is Delivery else value.local.values()  # type: ignore[union-attr]
