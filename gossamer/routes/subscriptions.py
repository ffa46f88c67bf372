"""The subscription table of a node: the filters and options of each subscriber.

The index, the share groups and this node's rows of the ``routes`` table are derived from it, and updated by
it: a row exists exactly while this node has a subscriber of its filter. Its value is :data:`PERSISTENT` if
one of them is, so that other nodes keep hints while this one is away.

Rules: 1. Methods are synchronous, and where one raises nothing changed.  2. A change removes the routes that
it concerns from the cache before it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec
import structlog

from gossamer.mnesia_like import OwnedTable
from gossamer.routes.delivery import Delivery, Subscriber, SubscriptionOptions, delivery_of
from gossamer.routes.exclusive import ExclusiveClaims, is_exclusive
from gossamer.routes.kernel import is_filter
from gossamer.routes.resolver import Resolver
from gossamer.routes.shared import Group, is_shared
from gossamer.routes.topics import EXCLUSIVE, TopicLimits, parse_filter

log = structlog.get_logger(__name__)

_STEP = 200
PRESENT, PERSISTENT = 1, 2
"""Values of a row: the filter has a subscriber; and one of them outlives its node."""


class Filters(dict[str, Delivery]):
    """Filters of one subscriber. Most have the same options as the one before and share its delivery."""

    __slots__ = ("latest", "options")

    def __init__(self) -> None:
        self.options: SubscriptionOptions | None = None
        self.latest: Delivery
        """Delivery with these ``options``."""


class Subscribed(msgspec.Struct, frozen=True):
    """Result of a subscribe. ``existing``: the subscription was there, and has these options now. ``seq``:
    write to wait for with :meth:`Router.visible`, larger than any before; None: every node has it."""

    existing: bool
    seq: int | None


class SubscriptionTable:
    """Subscriptions by subscriber and filter; ``counts`` are the router's."""

    def __init__(
        self,
        resolver: Resolver,
        exclusive: ExclusiveClaims,
        *,
        limits: TopicLimits,
        counts: Counter[str],
    ) -> None:
        self.table: OwnedTable | None = None
        self.subscribers: dict[object, Filters] = {}
        self._index = resolver.index
        self._shared = resolver.shared
        self._routes = resolver.cache
        self.exclusive = exclusive
        self._limits = limits
        self._counts = counts
        self.latest = 0
        """Sequence number of the latest write."""
        self._persistent: Counter[str] = Counter()
        """Number of persistent subscribers, of filters that have one."""
        self._evicted: list[Callable[[Subscriber, str], object]] = []
        self._stuck: list[Callable[[Group], object]] = []

    def subscribe(
        self, topic_filter: str, subscriber: Subscriber, options: SubscriptionOptions
    ) -> Subscribed:
        """Subscribe, or change the options of a subscription.

        Raises:
            InvalidTopicFilter: it is no topic filter; nothing changed.
            ExclusiveTakenError: another client has this exclusive subscription; nothing changed.
        """
        limits = self._limits
        text = topic_filter
        if text[:1] == "$" and is_exclusive(text):
            return self._subscribe_exclusive(text, subscriber, options)
        plain = is_filter(text, limits.max_bytes, limits.max_levels)
        if not plain:
            text = parse_filter(topic_filter, limits)
        mine = self.subscribers.get(subscriber)
        if mine is None:
            mine = self.subscribers[subscriber] = Filters()
        known = mine.get(text)
        if known is not None and known.asks(options):
            return Subscribed(True, self._unseen())
        if mine.options != options:
            mine.options, mine.latest = options, delivery_of(subscriber, options)
        delivery = mine.latest
        if not plain and is_shared(text):
            self._shared.join(text, delivery)
            self._write_shared(text)
            mine[text] = delivery
            return Subscribed(known is not None, self._unseen())
        first = self._index.add(text, delivery)
        lasts = delivery.persistent or (known is not None and known.persistent)
        turned = lasts and self._count_persistent(text, known, delivery)
        if (first or turned) and self.table is not None:
            try:
                self.latest = self.table.write(text, self.row(text))
            except BaseException:
                self._count_persistent(text, delivery, known)
                if known is None:
                    self._index.discard(text, subscriber)
                else:
                    self._index.add(text, known)
                if not mine:
                    del self.subscribers[subscriber]
                raise
        mine[text] = delivery
        self._routes.changed(text)
        # No node has seen a row that was just written.
        written = first and self.table is not None
        return Subscribed(known is not None, self.latest if written else self._unseen())

    def unsubscribe(self, topic_filter: str, subscriber: Subscriber) -> bool:
        """End a subscription; False: there was none."""
        if self.exclusive:
            body = topic_filter[len(EXCLUSIVE) :] if is_exclusive(topic_filter) else topic_filter
            self._release(body, subscriber)
            topic_filter = body
        mine = self.subscribers.get(subscriber)
        known = None if mine is None else mine.pop(topic_filter, None)
        if known is None:
            return False
        if not mine:
            del self.subscribers[subscriber]
        self._leave(topic_filter, known)
        return True

    def unsubscribe_all(self, subscriber: Subscriber) -> int:
        """End all subscriptions of a subscriber; return how many there were."""
        mine = self.subscribers.pop(subscriber, None)
        if mine is None:
            return 0
        for body in self.exclusive.held_by(subscriber):
            self._release(body, subscriber)
        for topic_filter, known in mine.items():
            self._leave(topic_filter, known)
        return len(mine)

    def row(self, topic_filter: str) -> int:
        """Return the value for the row of an ordinary filter with a subscriber here."""
        return PERSISTENT if topic_filter in self._persistent else PRESENT

    def subscriptions(self, subscriber: Subscriber) -> dict[str, Delivery]:
        """Return the filters of a subscriber, each with its delivery."""
        return dict(self.subscribers.get(subscriber, {}))

    def on_evicted(self, callback: Callable[[object, str], object]) -> None:
        """Call ``callback(subscriber, filter)`` when an exclusive subscription lost against another's."""
        self._evicted.append(callback)

    def on_stuck(self, callback: Callable[[Group], object]) -> None:
        """Call ``callback(group)`` twice a second while a group has ``stuck`` members here, and others have
        room."""
        self._stuck.append(callback)

    def losers(self, owner: str, rows: Mapping[object, object]) -> None:
        """Give up the claims that lose against these rows of another node."""
        for body, subscriber in self.exclusive.beaten(owner, rows):
            self._evict(body, subscriber, owner)

    # Inside.

    def _subscribe_exclusive(
        self, text: str, subscriber: Subscriber, options: SubscriptionOptions
    ) -> Subscribed:
        body = parse_filter(text, self._limits)[len(EXCLUSIVE) :]
        held = body in self.exclusive.held_by(subscriber)
        value = self.exclusive.claim(body, subscriber, self.table)
        if held:
            return self.subscribe(body, subscriber, options)
        try:
            if self.table is not None:
                self.latest = self.table.write(text, value)
            done = self.subscribe(body, subscriber, options)
        except BaseException:
            self._release(body, subscriber)
            raise
        return Subscribed(done.existing, self._unseen())

    def _release(self, body: str, subscriber: object) -> None:
        if self.exclusive.release(body, subscriber) and self.table is not None:
            self.latest = self.table.delete(EXCLUSIVE + body)

    def _evict(self, body: str, subscriber: Subscriber, owner: str) -> None:
        self._counts["exclusive_evicted"] += 1
        log.warning("exclusive_subscription_lost", filter=body, to=owner)
        self.unsubscribe(EXCLUSIVE + body, subscriber)
        for callback in self._evicted:
            callback(subscriber, EXCLUSIVE + body)

    def _count_persistent(self, topic_filter: str, before: Delivery | None, after: Delivery | None) -> bool:
        """Count a subscriber's delivery that was replaced; return whether the row's value changes."""
        was = before is not None and before.persistent
        lasts = after is not None and after.persistent
        if was == lasts:
            return False
        count = self._persistent[topic_filter] + lasts - was
        if count:
            self._persistent[topic_filter] = count
        else:
            del self._persistent[topic_filter]
        return count == lasts

    def _leave(self, topic_filter: str, known: Delivery) -> None:
        subscriber = known.subscriber
        if is_shared(topic_filter):
            self._shared.leave(topic_filter, subscriber)
            self._write_shared(topic_filter)
            return
        last = self._index.discard(topic_filter, subscriber)
        self._routes.changed(topic_filter)
        turned = self._count_persistent(topic_filter, known, None)
        if self.table is None:
            return
        if last:
            self.latest = self.table.delete(topic_filter)
        elif turned:
            self.latest = self.table.write(topic_filter, PRESENT)

    def _write_shared(self, name: str) -> None:
        """Write the row of a share group: the :class:`~.shared.Count` of its members here."""
        if self.table is None:
            return
        group = self._shared.get(name)
        if group is not None and group.members:
            group.row = group.count().row()
            self.latest = self.table.write(name, group.row)
        else:
            self.latest = self.table.delete(name)

    def refresh_groups(self) -> Iterator[None]:
        """Write the rows of share groups whose counts have changed, and report those with stuck members that
        have others with room; in steps."""
        for number, group in enumerate(self._shared, 1):
            group.look()
            if group.members and group.count().row() != group.row:
                self._write_shared(group.name)
            if group.stuck and group.has_room():
                for callback in self._stuck:
                    callback(group)
            if number % _STEP == 0:
                yield

    def _unseen(self) -> int | None:
        if self.table is None or self.table.is_visible(self.latest):
            return None
        return self.latest
