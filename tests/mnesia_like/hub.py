"""In-memory links between stores, and nodes to put stores into."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from gossamer.mnesia_like import ReplicationSink, Store
from gossamer.supervisor import Runtime, Supervisor


class HubLink:
    """One node's end: every frame arrives one loop turn later."""

    def __init__(self, hub: Hub, name: str) -> None:
        self.hub = hub
        self.name = name
        self.creation = 0
        self.sink: ReplicationSink | None = None
        self.sent = 0
        self.undone: dict[int, tuple[str, bytes]] = {}

    def peers(self) -> dict[str, tuple[int, int]]:
        return {
            n: (link.creation, self.hub.session(self.name, n))
            for n, link in self.hub.links.items()
            if n != self.name and frozenset((n, self.name)) not in self.hub.cut
        }

    def renewing(self) -> set[str]:
        return set()

    def send(self, peer: str, session: int, frame: bytes) -> None:
        self.sent += 1
        asyncio.get_running_loop().call_soon(self.hub.deliver, self.name, peer, session, frame)

    def renew(self, peer: str) -> None:
        self.hub.partition(self.name, peer)
        self.hub.heal(self.name, peer)

    def attach(self, sink: ReplicationSink) -> None:
        self.sink = sink
        undone, self.undone = self.undone, {}
        for number, (peer, frame) in undone.items():
            self.take(number, peer, frame)

    def take(self, number: int, peer: str, frame: bytes) -> None:
        self.undone[number] = peer, frame
        if self.sink is not None:
            self.sink.frame(peer, frame, lambda: self.undone.pop(number, None) and None)


class Hub:
    """All the links."""

    def __init__(self) -> None:
        self.links: dict[str, HubLink] = {}
        self.cut: set[frozenset[str]] = set()
        self._creation = 0
        self._sessions: dict[frozenset[str], int] = {}
        self._frames = 0
        self._holding: list[tuple[str, str, int, bytes]] | None = None

    def join(self, name: str) -> HubLink:
        self._creation += 1
        link = HubLink(self, name)
        link.creation = self._creation
        for other in self.links.values():
            if other.sink is not None and frozenset((name, other.name)) not in self.cut:
                other.sink.peer_up(name, link.creation, self.session(name, other.name))
        self.links[name] = link
        return link

    def part(self, name: str, *, left: bool) -> None:
        del self.links[name]
        for other in self.links:
            self.end(name, other)
        for other in self.links.values():
            if other.sink is not None:
                other.sink.peer_down(name, left=left)

    def partition(self, one: str, two: str) -> None:
        self.cut.add(frozenset((one, two)))
        self.end(one, two)
        for a, b in ((one, two), (two, one)):
            sink = self.links[a].sink
            assert sink is not None
            sink.peer_down(b, left=False)

    def heal(self, one: str, two: str) -> None:
        self.cut.discard(frozenset((one, two)))
        for a, b in ((one, two), (two, one)):
            sink = self.links[a].sink
            assert sink is not None
            sink.peer_up(b, self.links[b].creation, self.session(a, b))

    def session(self, one: str, two: str) -> int:
        return self._sessions.setdefault(frozenset((one, two)), 1)

    def end(self, one: str, two: str) -> None:
        self._sessions[frozenset((one, two))] = self.session(one, two) + 1
        for a, b in ((one, two), (two, one)):
            if a in self.links:
                link = self.links[a]
                link.undone = {n: (peer, frame) for n, (peer, frame) in link.undone.items() if peer != b}

    def hold(self) -> None:
        """Nobody takes anything until ``release``."""
        self._holding = []

    def release(self) -> None:
        held, self._holding = self._holding or [], None
        for frame in held:
            self.deliver(*frame)

    def deliver(self, source: str, target: str, session: int, frame: bytes) -> None:
        if self._holding is not None:
            self._holding.append((source, target, session, frame))
            return
        link = self.links.get(target)
        pair = frozenset((source, target))
        if link is not None and pair not in self.cut and session == self.session(source, target):
            self._frames += 1
            link.take(self._frames, source, frame)


class Host:
    """A store and the runtime that keeps it."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self.store = store
        self.runtime = runtime

    def child(self, label: str) -> Any:
        """The pid of the process of that label."""
        for pid in self.runtime.processes():
            entry = self.runtime.table[pid]
            if entry.label == label:
                return pid
        raise LookupError(label)


@contextlib.asynccontextmanager
async def host(name: str, hub: Hub | None = None, **options: Any) -> AsyncIterator[Host]:
    """A running store, stopped in order at the end."""
    link = None if hub is None else hub.join(name)
    creation = 1 if link is None else link.creation
    store = Store(node=name, creation=creation, link=link, **options)
    runtime = Runtime(node=name, creation=creation)
    await runtime.start(Supervisor, [store.child_spec()], name="top")
    try:
        yield Host(store, runtime)
    finally:
        await runtime.stop()


@contextlib.asynccontextmanager
async def cluster(names: str, kind: Any, **options: Any) -> AsyncIterator[tuple[Hub, list[Host], list[Any]]]:
    """Linked hosts, a letter each, and their copies of one table ``t``."""
    hub = Hub()
    async with contextlib.AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(host(name, hub, **options)) for name in names]
        yield hub, hosts, [await h.store.create_table("t", replication=kind) for h in hosts]


async def until(condition: Any, seconds: float = 20.0, *, pause: float = 0.0) -> None:
    """Let the loop turn until ``condition()``; fails when it never comes true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - any state of any object may be waited for
            await asyncio.sleep(pause)
