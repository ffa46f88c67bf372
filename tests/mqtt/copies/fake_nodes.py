"""Nodes whose sessions are copied to one range in memory."""

import asyncio

from gossamer.basekv import Delete, DeleteRange, Put
from gossamer.basekv.values import MAX_KEY, MAX_OPERATIONS, MAX_VALUE, MAX_WRITE
from gossamer.mqtt.codec.packets import V5, Subscription
from gossamer.mqtt.copies import rows as layout
from gossamer.mqtt.copies.copies import SessionCopies
from gossamer.mqtt.copies.rows import OWNER_SUFFIX
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import base_of
from gossamer.mqtt.session.durable import DurableSession
from mqtt.fakes import FakeChannel, FakeFanout, FakeJournal
from mqtt.session.test_store import store_on


class FakeKeyValues:
    """Ranges in memory, one or as many as there are, which all nodes of a test share."""

    def __init__(self, ranges=1):
        self.ranges = ranges
        self.stuck = {}
        """By range that has no leader, an event for when it has one."""
        self.rows = {}
        self.writes = []
        self.scans = 0
        self.error = None
        """What a write is answered with instead."""
        self.answers = asyncio.Event()
        self.answers.set()

    def range_of(self, key):
        return int.from_bytes(key[:1]) * self.ranges // 256

    async def led(self, key):
        await self.answers.wait()
        if (number := self.range_of(key)) in self.stuck:
            await self.stuck[number].wait()

    def stick(self, number):
        self.stuck[number] = asyncio.Event()

    async def write(self, operations, expected=()):
        expected = list(expected)
        assert 0 < len(operations) <= MAX_OPERATIONS - len(expected)
        await self.led(expected[0].key)
        if self.error is not None:
            raise self.error
        if any(self.rows.get(one.key) != one.value for one in expected):
            return False
        self.writes.append(operations)
        puts = [one for one in operations if isinstance(one, Put)]
        assert sum(len(put.key) + len(put.value) for put in puts) <= MAX_WRITE
        for operation in operations:
            match operation:
                case Put(key, value):
                    assert len(key) <= MAX_KEY
                    assert len(value) <= MAX_VALUE
                    self.rows[key] = value
                case Delete(key):
                    self.rows.pop(key, None)
                case DeleteRange(start, end):
                    for key in [key for key in self.rows if start <= key < end]:
                        del self.rows[key]
        return True

    async def scan(self, start, end, limit=None, *, max_staleness=0.0):
        self.scans += 1
        await self.led(start)
        if self.error is not None:
            raise self.error
        return sorted((key, value) for key, value in self.rows.items() if start <= key < end)[:limit]


class FakeNode:
    """A node with sessions on disc, which are copied."""

    def __init__(self, keys, name="here", creation=1, *, strict=False):
        self.keys, self.name = keys, name
        self.fanout, self.journal = FakeFanout(), FakeJournal()
        self.store = store_on(self.journal, self.fanout)
        self.sessions = {}
        self.enough = True
        self.writes = True
        """Whether its disc does."""
        self.tasks = []
        self.copies = self.store.copies = SessionCopies(
            keys,
            self.sessions,
            node=name,
            creation=creation,
            spawn=self.spawn,
            now=self.fanout.now,
            enough=lambda: self.enough,
            released=self.store.released,
            on_disc=self.on_disc,
            strict=strict,
        )
        self.store.on_commit = self.copies.committed_here

    async def on_disc(self):
        if not self.writes:
            await asyncio.Event().wait()
        self.journal.commit()

    def spawn(self, body, *args, label):
        self.tasks.append(asyncio.ensure_future(body(*args)))

    async def settle(self):
        """Commit, and wait for all writes that this leads to."""
        self.journal.commit()
        while self.tasks:
            await self.tasks.pop()

    async def tick(self, after=1.0):
        self.fanout.at += after
        self.copies.tick()
        await self.settle()

    def begin(self, client_id="c", *, epoch=10):
        session = DurableSession(client_id, fanout=self.fanout, store=self.store, max_queued=100_000)
        session.version, session.expiry, session.epoch, session.born = V5, 100, epoch, epoch
        self.sessions[client_id] = session
        session.save()
        return session

    def end(self, client_id="c", *, elsewhere=False):
        session = self.sessions.pop(client_id)
        if elsewhere:
            self.store.leave(client_id)
        session.forget()

    async def image(self, client_id="c"):
        """The session that another node would begin with; None: there is no copy."""
        image = await self.copies.find(client_id)
        if image is None:
            return None
        stored = self.store.one(image.rows)
        session = DurableSession(client_id, fanout=self.fanout, store=self.store, max_queued=100_000)
        session.read_only()
        session.restore(stored)
        return session

    def owner(self, client_id="c"):
        value = self.keys.rows.get(layout.prefix_of(client_id) + OWNER_SUFFIX)
        return None if value is None else layout.owner_in({OWNER_SUFFIX: value})


def fill(session, *, size=3, count=5):
    """Give a session something of each kind."""
    session.subscribe(Subscription("a/" * 400 + "b", 2), 7)
    session.subscribe(Subscription("t", 1), None)
    session.attach(FakeChannel(), version=V5, receive_maximum=2)
    first = base_of("there", 3) + 300
    for number in range(count):
        message = Message(b"t", b"%d" % number * size, qos=1 + number % 2)
        message.id = first + number
        assert session.admits(message)
        session.take(message, qos=message.qos, retain=False)
    session.unreleased(9, first + 100)
    session.save()


async def new_node(ranges=1, **options):
    node = FakeNode(FakeKeyValues(ranges), **options)
    assert node.copies.begun()
    return node
