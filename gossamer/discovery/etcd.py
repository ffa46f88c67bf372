"""The ``etcd`` strategy: nodes register in etcd, which is asked for seeds and for nothing else.

::

    <prefix>/<env>/nodes/<node>    where it gossips; on a lease of ``node_ttl`` that is kept alive
    <prefix>/<env>/lock/<lease>    the queue for the join lock; on a lease of ``lock_ttl`` that is not

Rules: 1. Whose key in the queue is the oldest has the lock; the others wait for the key before theirs, so
that a release wakes one of them.  2. The revision of that key is the fence: a registration holds only while
the key is still there, and a node that was frozen beyond its lease cannot register on a lock that another
has.  3. Every key is on a lease: nothing that dies leaves anything behind.  4. While it holds the lock a node
reads the register itself; afterwards it follows a watch, which goes on from the last revision seen, and loads
the register again when that is compacted.  5. The oldest node comes first.  6. While etcd is away the last
known register stands, and the problem is told; one of several endpoints that is away is none.  7. News of the
watch wakes the loop.

Rejected: one key for the lock, as EMQX has it, which leaves waiters to their timers; membership by leases,
since gossip finds a dead node in seconds and does not need etcd to be alive.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import structlog

from gossamer.discovery.etcd_client import EtcdClient, Events, Item, WatchBrokenError
from gossamer.discovery.hosts import is_literal
from gossamer.discovery.strategy import Discovered, DiscoveryFailedError, Strategy
from gossamer.gossip import Member
from gossamer.network import Address
from gossamer.supervisor import ChildSpec, GenServer, Pid, Reason, self_pid, send_after, spawn_link, trap_exit

__all__ = ["Etcd", "Register"]

log = structlog.get_logger(__name__)

LOCK_WAIT = 10.0
"""Seconds in the queue before a node tells who holds the lock, and starts over."""
FIRST_WAIT, LONGEST_WAIT = 0.25, 5.0
RELEASE = 1.0
"""Seconds that a stopping node gives etcd to forget it."""


class _Entry(msgspec.Struct, frozen=True):
    address: str
    port: int


class Register:
    """The nodes as last seen; pure."""

    def __init__(self) -> None:
        self.revision = 0
        """Everything up to it is taken in; 0: nothing yet."""
        self._entries: dict[str, tuple[int, Address]] = {}

    def load(self, revision: int, items: list[Item]) -> None:
        self._entries.clear()
        self._take(items)
        self.revision = revision

    def follow(self, events: Events) -> None:
        self._take(events.items)
        self.revision = max(self.revision, events.revision)

    def forget_place(self) -> None:
        """The next revisions cannot be had any more: load again."""
        self.revision = 0

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Oldest first."""
        return tuple(dict.fromkeys(address for _, address in sorted(self._entries.values())))

    def _take(self, items: list[Item] | tuple[Item, ...]) -> None:
        for item in items:
            address = None if item.value is None else _address(item.value)
            if address is None:
                # Deleted, or written by somebody else.
                self._entries.pop(item.key, None)
            else:
                self._entries[item.key] = (item.created, address)


class Etcd(Strategy):
    """``before``: what must run before etcd can be asked, such as an embedded one."""

    name = "etcd"

    def __init__(
        self,
        client: EtcdClient,
        *,
        node: str,
        prefix: str,
        node_ttl: float,
        lock_ttl: float,
        before: list[ChildSpec] | None = None,
    ) -> None:
        self._client = client
        self._keeper = client.another()
        self._watcher = client.another()
        self._node = node
        self._nodes = f"{prefix}/nodes/"
        self._locks = f"{prefix}/lock/"
        self._node_ttl = node_ttl
        self._lock_ttl = lock_ttl
        self._before = before or []
        self._register = Register()
        self._problems: dict[str, DiscoveryFailedError] = {}
        """What keeps each of the processes beside the loop from its work."""
        self._lease = 0
        self._lock_lease = 0
        self._lock_key = ""
        self._fence = 0

    @property
    def registered(self) -> bool:  # type: ignore[override]
        return self._lease != 0

    def children(self) -> list[ChildSpec]:
        return [
            *self._before,
            ChildSpec("lease", self._start_lease),
            ChildSpec("watch", self._start_watch),
        ]

    # -- the loop

    async def lock(self) -> None:
        lease = self._lock_lease = await self._client.grant(self._lock_ttl)
        self._lock_key = f"{self._locks}{lease:016x}"
        self._fence = await self._client.create(self._lock_key, self._node.encode(), lease)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LOCK_WAIT
        while (ahead := await self._client.predecessor(self._locks, self._fence)) is not None:
            left = min(deadline - loop.time(), self._lock_ttl / 3)
            if left <= 0 or not await self._client.keep_alive(lease):
                holder = (ahead.value or b"").decode(errors="replace")
                raise DiscoveryFailedError("etcd lock", f"held by {holder}, which joins or has just died")
            await self._gone(ahead.key, left)

    async def discover(self, local: Address) -> Discovered:
        if not self.registered:
            self._register.load(*await self._client.range(self._nodes))
        # The watch last: where both are kept from their work, its word is told.
        found = [self._problems[name] for name in ("lease", "watch") if name in self._problems]
        return Discovered(self._register.addresses, {error.where: error.problem for error in found})

    async def register(self, member: Member) -> None:
        lease = await self._client.grant(self._node_ttl)
        value = msgspec.json.encode(_Entry(*member.endpoint))
        key = self._nodes + self._node
        if not await self._client.put_if(key, value, lease, guard=self._lock_key, created=self._fence):
            raise DiscoveryFailedError(
                "etcd lock", f"lost before this node had registered; was it frozen for {self._lock_ttl:g} s?"
            )
        self._lease = lease

    async def unlock(self) -> None:
        lease, self._lock_lease = self._lock_lease, 0
        await self._revoke(lease)

    async def unregister(self) -> None:
        lease, self._lease = self._lease, 0
        await self._revoke(lease)

    async def _gone(self, key: str, seconds: float) -> None:
        """Wait, for so long at most, until ``key`` is deleted."""
        try:
            async with asyncio.timeout(seconds):
                revision = self._fence
                async with aclosing(self._client.watch(self._locks, revision + 1)) as watch:
                    async for events in watch:
                        if events.lost or any(i.key == key and i.value is None for i in events.items):
                            return
        except TimeoutError:
            pass
        except WatchBrokenError:
            # Another endpoint may be well; whoever waits asks again, without losing its place.
            await asyncio.sleep(min(seconds, FIRST_WAIT))

    async def _revoke(self, lease: int) -> None:
        if not lease:
            return
        try:
            await self._client.revoke(lease)
        except DiscoveryFailedError as error:
            # It ends by itself, with all that hangs on it.
            log.info("lease_left_to_expire", problem=str(error))

    # -- what runs beside the loop

    async def _start_lease(self) -> Pid:
        return await _Lease.start_link(self, label="etcd lease")

    async def _start_watch(self) -> Pid:
        return spawn_link(self._watch, label="etcd watch")

    async def keep(self) -> float:
        """Renew the registration, or notice that it is gone; seconds until it is to be done again."""
        lease = self._lease
        if not lease:
            self._problems.pop("lease", None)
            return self._node_ttl / 3
        try:
            if not await self._keeper.keep_alive(lease) and self._lease == lease:
                self._lease = 0
                self._news()
        except DiscoveryFailedError as error:
            self._problems["lease"] = error
            return min(self._node_ttl / 3, LONGEST_WAIT)
        self._problems.pop("lease", None)
        return self._node_ttl / 3

    async def release(self) -> None:
        """Give everything back, within bounds."""
        try:
            async with asyncio.timeout(RELEASE):
                await self.unlock()
                await self.unregister()
        except TimeoutError:
            pass
        for client in (self._watcher, self._keeper, self._client):
            await client.close()

    def _news(self) -> None:
        if self.wake is not None:
            self.wake()

    def _take(self, events: Events) -> None:
        if events.lost:
            self._register.forget_place()
            return
        before = self._register.addresses
        self._register.follow(events)
        own = self._nodes + self._node
        if any(item.key == own and item.value is None for item in events.items):
            # Somebody deleted it; the lease that is left without a key is of no use.
            self._lease = 0
            self._news()
        elif self._register.addresses != before:
            self._news()

    async def _watch(self) -> None:
        wait = FIRST_WAIT
        while True:
            try:
                if not self._register.revision:
                    self._register.load(*await self._watcher.range(self._nodes))
                async with aclosing(self._watcher.watch(self._nodes, self._register.revision + 1)) as watch:
                    async for events in watch:
                        self._problems.pop("watch", None)
                        wait = FIRST_WAIT
                        self._take(events)
            except WatchBrokenError:
                await self._judge()
            except DiscoveryFailedError as error:
                self._problems["watch"] = error
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _judge(self) -> None:
        """A watch broke: is it etcd that is away, or one endpoint of several?"""
        try:
            await self._watcher.reach(self._nodes)
        except DiscoveryFailedError as error:
            self._problems["watch"] = error


class _Lease(GenServer):
    """Renews the registration while the node lives, and gives it back when it ends in order."""

    async def init(self, strategy: Etcd) -> None:
        trap_exit(True)
        self._strategy = strategy
        send_after(await strategy.keep(), self_pid(), "renew")

    async def handle_info(self, message: Any) -> None:
        if message == "renew":
            send_after(await self._strategy.keep(), self_pid(), "renew")

    async def terminate(self, reason: Reason) -> None:
        await self._strategy.release()


def _address(value: bytes) -> Address | None:
    """Where an entry says that a node gossips; None where it is none of ours."""
    try:
        entry = msgspec.json.decode(value, type=_Entry)
    except msgspec.MsgspecError:
        return None
    return (entry.address, entry.port) if is_literal(entry.address) and 0 < entry.port < 65536 else None
