"""An etcd in memory, for what takes hours: the calls of EtcdClient on virtual time, with outages at will."""

from __future__ import annotations

import asyncio

from gossamer.discovery import DiscoveryFailedError
from gossamer.discovery.etcd_client import Item

WHERE = "etcd 10.9.0.1:2379, 10.9.0.2:2379"


class Memory:
    """What all clients share. ``down`` says why nobody is answered."""

    def __init__(self) -> None:
        self.down = ""
        self.asked = 0
        self.revision = 1
        self.keys: dict[str, tuple[bytes, int, int]] = {}
        """Value, revision of creation, lease."""
        self.leases: dict[int, tuple[float, float]] = {}
        """Seconds to live, and until when."""

    def put(self, key: str, value: bytes | None, lease: int = 0) -> None:
        self.revision += 1
        created = self.keys[key][1] if key in self.keys else self.revision
        if value is None:
            del self.keys[key]
        else:
            self.keys[key] = value, created, lease

    def expire(self) -> None:
        now = asyncio.get_running_loop().time()
        for lease in [lease for lease, (_, until) in self.leases.items() if until <= now]:
            self.end(lease)

    def end(self, lease: int) -> None:
        self.leases.pop(lease, None)
        for key in [key for key, (_, _, on) in self.keys.items() if on == lease]:
            self.put(key, None)


class MemoryClient:
    """One client of it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def another(self) -> MemoryClient:
        return MemoryClient(self._memory)

    async def close(self) -> None:
        pass

    async def _asked(self) -> Memory:
        self._memory.asked += 1
        await asyncio.sleep(0.001)
        if self._memory.down:
            raise DiscoveryFailedError(WHERE, self._memory.down)
        self._memory.expire()
        return self._memory

    async def range(self, prefix: str) -> list[Item]:
        memory = await self._asked()
        return [Item(k, v, c) for k, (v, c, _) in sorted(memory.keys.items()) if k.startswith(prefix)]

    async def predecessor(self, prefix: str, created: int) -> Item | None:
        items = await self.range(prefix)
        return max((i for i in items if i.created < created), key=lambda i: i.created, default=None)

    async def create(self, key: str, value: bytes, lease: int) -> int:
        memory = await self._asked()
        if key not in memory.keys:
            memory.put(key, value, lease)
        return memory.keys[key][1]

    async def put_if(self, key: str, value: bytes, lease: int, *, guard: str, created: int) -> bool:
        memory = await self._asked()
        if memory.keys.get(guard, (b"", 0, 0))[1] != created:
            return False
        memory.put(key, value, lease)
        return True

    async def grant(self, ttl: float) -> int:
        memory = await self._asked()
        memory.revision += 1
        memory.leases[memory.revision] = ttl, asyncio.get_running_loop().time() + ttl
        return memory.revision

    async def keep_alive(self, lease: int) -> None:
        memory = await self._asked()
        if lease in memory.leases:
            ttl, _ = memory.leases[lease]
            memory.leases[lease] = ttl, asyncio.get_running_loop().time() + ttl

    async def revoke(self, lease: int) -> None:
        (await self._asked()).end(lease)
