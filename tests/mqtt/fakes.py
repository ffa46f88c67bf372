"""What stands around the part under test, with the plainest insides: router, forwarders, fanout, disc."""

import asyncio
from collections.abc import Callable

import msgspec

from gossamer.mqtt.flow.backpressure import Pressure
from gossamer.routes.delivery import delivery_of, merge
from gossamer.routes.topics import TopicLimits, matches, parse_filter, parse_name

INSIDE = TopicLimits(inside=True)


class Route:
    __slots__ = ("captured", "deliveries", "groups", "mask", "peers", "plan")

    def __init__(self, deliveries, peers):
        self.deliveries = deliveries
        self.peers = peers
        self.plan = None
        self.groups = ()
        self.captured = ()
        self.mask = 0


class Subscribed:
    def __init__(self, existing, seq):
        self.existing = existing
        self.seq = seq


class FakeForwarder:
    """Keeps what is forwarded; ``settle`` plays the network."""

    peer = "there"

    def __init__(self):
        self.records = []
        self.waiting = []

    def append(self, record):
        self.records.append(record)

    def append_acked(self, record, on_safe):
        self.records.append(record)
        self.waiting.append(on_safe)

    def settle(self, done=True):
        waiting, self.waiting = self.waiting, []
        for on_safe in waiting:
            on_safe(done)


class FakeRouter:
    def __init__(self):
        self.cache = {}
        self.filters = {}
        self.remote = {}
        self.callback: Callable | None = None
        self.seq = 0
        self.seen = 1 << 60
        self.waiters = []
        self.patient = True
        """Whether it waits for ``seen`` without end."""

    def _changed(self):
        self.cache.clear()

    def resolve(self, topic):
        name = parse_name(topic, INSIDE)
        found = []
        for topic_filter, subscribers in self.filters.items():
            if not matches(topic_filter, name):
                continue
            found += [delivery_of(subscriber, options) for subscriber, options in subscribers.items()]
        deliveries = merge(found)
        peers = tuple(peer for topic_filter, peer in self.remote.items() if matches(topic_filter, name))
        route = self.cache[bytes(topic)] = Route(deliveries, peers)
        return route

    def subscribe(self, topic_filter, subscriber, options):
        parse_filter(topic_filter, INSIDE)
        subscribers = self.filters.setdefault(topic_filter, {})
        existing = subscriber in subscribers
        subscribers[subscriber] = options
        self.seq += 1
        self._changed()
        return Subscribed(existing, self.seq)

    def unsubscribe(self, topic_filter, subscriber):
        found = self.filters.get(topic_filter, {}).pop(subscriber, None) is not None
        self._changed()
        return found

    def unsubscribe_all(self, subscriber):
        for subscribers in self.filters.values():
            subscribers.pop(subscriber, None)
        self._changed()

    def add_peer(self, topic_filter, forwarder):
        self.remote[topic_filter] = forwarder
        self._changed()

    def is_visible(self, seq):
        return seq <= self.seen

    def when_visible(self, seq, then, *, bounded=True):
        loop = asyncio.get_running_loop()
        if seq <= self.seen or (bounded and not self.patient):
            loop.call_soon(then, seq <= self.seen)
        else:
            self.waiters.append((seq, then))

    def unconfirmed(self, seq):
        return ["node2@far"]

    def show(self, seq):
        self.seen = seq
        waiters, self.waiters = self.waiters, []
        for wanted, then in waiters:
            self.when_visible(wanted, then, bounded=False)

    def group(self, name):
        return None

    def expects(self, name):
        return False

    def pick(self, group, publisher, topic, *, online=False):
        return None

    def on_group_lost(self, callback):
        self.lost = callback

    def on_stuck(self, callback):
        self.stuck = callback

    def on_evicted(self, callback):
        self.evicted = callback

    def refresh_with(self, fresh, fresh_kept):
        self.fresh = fresh

    def on_group_forward(self, callback):
        self.group_callback = callback

    def on_forward(self, callback):
        self.callback = callback

    def on_dropped(self, callback):
        self.dropped = callback

    def on_congestion(self, callback):
        self.congestion = callback


class FakeJournal:
    """Rows that are on disc, and rows on their way."""

    def __init__(self):
        self.rows = {}
        self.open = {}
        self.committed = 0
        self.callbacks = []

    @property
    def ticket(self):
        return self.committed + bool(self.open)

    def put(self, key, value):
        self.open[key] = value
        return self.ticket

    def on_commit(self, callback):
        self.callbacks.append(callback)

    def commit(self):
        if self.open:
            self.rows.update(self.open)
            self.open = {}
            self.committed += 1
            for callback in self.callbacks:
                callback()

    def read(self):
        decode = msgspec.msgpack.Decoder().decode
        pairs = [(decode(key), decode(value)) for key, value in self.rows.items() if value is not None]
        return {tuple(key): value for key, value in pairs}


class FakeFanout:
    """Counts what is dropped, and keeps nothing else."""

    recorder = None

    def __init__(self):
        self.pressure = Pressure(lambda *_: None)
        self.at = 100.0
        self.drops = []

    def touch(self, session):
        pass

    def where(self):
        return ""

    def now(self):
        return self.at

    def dropped(self, reason, count=1):
        self.drops += [reason] * count


class FakeChannel:
    will = None
    unwritten = 0
