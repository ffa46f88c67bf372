"""The ``etcd`` strategy: nodes register in etcd, which is asked for seeds and for nothing else.

::

    <prefix>/<env>/nodes/<node>    where it gossips; on a lease of ``node_ttl`` that is kept alive
    <prefix>/<env>/lock/<lease>    the queue for the join lock; on a lease of ``lock_ttl`` that is not

Rules: 1. Whose key in the queue is the oldest has the lock; the others ask until the one before them is gone.
2. The revision of that key is the fence: a registration holds only while the key is still there, and a node
that was frozen beyond its lease cannot register on a lock that another has.  3. Every key is on a lease:
nothing that dies leaves anything behind.  4. A node whose own key is gone registers again.  5. The oldest
node comes first.  6. While etcd is away the last known register stands, and the problem is told; one of
several endpoints that is away is none.

Rejected: one key for the lock, as EMQX has it, which leaves waiters to their timers; membership by leases,
since gossip finds a dead node in seconds and does not need etcd to be alive; a watch, which is a connection
for each node and finds nobody sooner than gossip does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
import structlog

from gossamer.config.discovery import EtcdConfig
from gossamer.discovery.etcd_client import EtcdClient, Item
from gossamer.discovery.strategy import Discovered, DiscoveryFailedError, Strategy, is_literal
from gossamer.gossip import Member
from gossamer.network import Address
from gossamer.supervisor import ChildSpec, GenServer, Pid, Reason, self_pid, send_after, trap_exit

log = structlog.get_logger(__name__)

LOCK_WAIT = 10.0
"""Seconds in the queue before a node reports the lock's holder, and starts over."""
LOCK_INTERVAL = 0.1
RENEWAL_RETRY = 5.0
"""Longest wait before a renewal that failed is tried again."""
RELEASE_TIMEOUT = 1.0
"""Seconds that a stopping node gives etcd to forget it."""


class _Entry(msgspec.Struct, frozen=True):
    address: str
    port: int


def addresses_of(items: Iterable[Item]) -> tuple[Address, ...]:
    """Return where registered nodes gossip, the oldest first; keys of others are passed over."""
    entries = [(item.created, _address(item.value)) for item in items]
    return tuple(dict.fromkeys(address for _, address in sorted(entries) if address is not None))


def _address(value: bytes) -> Address | None:
    try:
        entry = msgspec.json.decode(value, type=_Entry)
    except msgspec.MsgspecError:
        return None
    return (entry.address, entry.port) if is_literal(entry.address) and 0 < entry.port < 65536 else None


class Etcd(Strategy):
    """``before``: what must run before etcd can be asked, such as an embedded one."""

    name = "etcd"

    def __init__(
        self, client: EtcdClient, config: EtcdConfig, *, node: str, env: str, before: Iterable[ChildSpec] = ()
    ) -> None:
        self._client = client
        self._keeper = client.another()
        self._config = config
        self._node = node
        self._nodes = f"{config.prefix}/{env}/nodes/"
        self._locks = f"{config.prefix}/{env}/lock/"
        self._before = tuple(before)
        self._known: tuple[Address, ...] = ()
        self._lease = 0
        self._lock_lease = 0
        self._lock_key = ""
        self._fence = 0

    @property
    def registered(self) -> bool:  # type: ignore[override]
        return self._lease != 0

    def children(self) -> list[ChildSpec]:
        return [*self._before, ChildSpec("lease", self._start_lease)]

    async def lock(self) -> None:
        lease = self._lock_lease = await self._client.grant(self._config.lock_ttl)
        self._lock_key = f"{self._locks}{lease:016x}"
        self._fence = await self._client.create(self._lock_key, self._node.encode(), lease)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LOCK_WAIT
        while (ahead := await self._client.predecessor(self._locks, self._fence)) is not None:
            if loop.time() >= deadline:
                holder = ahead.value.decode(errors="replace")
                raise DiscoveryFailedError("etcd lock", f"held by {holder}, which joins or has just died")
            await asyncio.sleep(LOCK_INTERVAL)
            # Should the lease be gone, the fence tells.
            await self._client.keep_alive(lease)

    async def discover(self, local: Address) -> Discovered:
        try:
            items = await self._client.range(self._nodes)
        except DiscoveryFailedError as error:
            if not self.registered:
                raise
            return Discovered(self._known, {error.where: error.problem})
        self._known = addresses_of(items)
        if not any(item.key == self._nodes + self._node for item in items):
            # Its lease ran out, or somebody deleted it.
            self._lease = 0
        return Discovered(self._known)

    async def register(self, member: Member) -> None:
        lease = await self._client.grant(self._config.node_ttl)
        value = msgspec.json.encode(_Entry(*member.endpoint))
        key = self._nodes + self._node
        if not await self._client.put_if(key, value, lease, guard=self._lock_key, created=self._fence):
            ttl = self._config.lock_ttl
            raise DiscoveryFailedError(
                "etcd lock", f"lost before this node had registered; was it frozen for {ttl:g} s?"
            )
        self._lease = lease

    async def unlock(self) -> None:
        lease, self._lock_lease = self._lock_lease, 0
        await self._revoke(lease)

    async def unregister(self) -> None:
        lease, self._lease = self._lease, 0
        await self._revoke(lease)

    async def keep(self) -> float:
        """Renew the registration; seconds until it is to be done again."""
        interval = self._config.node_ttl / 3
        if self._lease:
            try:
                await self._keeper.keep_alive(self._lease)
            except DiscoveryFailedError:
                # The loop asks the same etcd, and tells.
                return min(interval, RENEWAL_RETRY)
        return interval

    async def release(self) -> None:
        """Give everything back, within bounds."""
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                await self.unlock()
                await self.unregister()
        except TimeoutError:
            pass
        for client in (self._keeper, self._client):
            await client.close()

    async def _revoke(self, lease: int) -> None:
        if not lease:
            return
        try:
            await self._client.revoke(lease)
        except DiscoveryFailedError as error:
            # It ends by itself, with all that hangs on it.
            log.info("lease_left_to_expire", problem=str(error))

    async def _start_lease(self) -> Pid:
        return await _Lease.start_link(self, label="etcd lease")


class _Lease(GenServer):
    """Renews the registration while the node runs, and removes it at an orderly end."""

    async def init(self, strategy: Etcd) -> None:
        trap_exit(True)
        self._strategy = strategy
        send_after(await strategy.keep(), self_pid(), "renew")

    async def handle_info(self, message: object) -> None:
        if message == "renew":
            send_after(await self._strategy.keep(), self_pid(), "renew")

    async def terminate(self, reason: Reason) -> None:
        await self._strategy.release()
