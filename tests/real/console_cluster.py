"""A cluster of faked nodes behind a real API server, for what a browser shows of many or busy ones."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time
from types import SimpleNamespace
from typing import Self

import structlog
from api.fakes import FakeTable, FakeView, member

from gossamer.api import ApiServer, PeerRequests, Tokens, make_app
from gossamer.api.model.cluster import NodeHistory, NodeInfo, Seen
from gossamer.api.model.node import ClientInfo
from gossamer.clock import SystemClock
from gossamer.config import ApiConfig
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime, TraceLine

KINDS = ("up", "link_up", "suspected", "refuted", "link_down", "down", "healed")


class BusyView(FakeView):
    """One of many nodes: clients, traffic, an hour of history, and a process that can be traced at a rate."""

    def __init__(self, number: int, names: list[str], *, rate: int, apart: frozenset[str]) -> None:
        super().__init__(name=names[number])
        self.number, self.names, self.rate = number, names, rate
        self.apart = apart
        self.begun = time.time() - 5000 - number
        self.known = [
            member(at + 1).model_copy(
                update={"name": name, "local": at == number, "ports": {"mqtt": 1883 + at}}
            )
            for at, name in enumerate(names)
        ]
        self.sessions = [
            ClientInfo(
                client=f"meter-{number:02}{at:03}",
                connected=at % 9 != 4,
                node=self.name,
                address=f"10.0.{number}.{at}:{40_000 + at * 7}" if at % 9 != 4 else "",
                version="5.0",
                username=("", "anna", "ben")[at % 3],
                keepalive=60,
                connected_at=self.begun + at,
                subscriptions=at % 4,
                inflight=at % 3,
                queued=at * 13 % 40 if at % 9 == 4 else 0,
                process=f"<{self.name}.{at}>",
            )
            for at in range(40)
        ]
        events = [
            SimpleNamespace(
                serial=at + 1,
                at=self.begun + at * 37.123,
                kind=KINDS[at % len(KINDS)],
                peer=names[(number + 1 + at) % len(names)],
                text="unreachable" if KINDS[at % len(KINDS)] == "down" else "",
            )
            for at in range(30)
        ]
        self.event_log.after = lambda serial: [one for one in events if one.serial > serial]

    def nodes(self):
        return [
            NodeInfo(
                name=row.name,
                status="offline" if self.is_apart(row.name) else row.status,
                link="self" if row.local else "down" if self.is_apart(row.name) else "up",
                address=f"{row.address}:{row.port}",
                ports=row.ports,
            )
            for row in self.known
        ]

    def is_apart(self, name: str) -> bool:
        return (name in self.apart) != (self.name in self.apart)

    def pulse(self):
        now = time.time()
        seconds = now - self.begun
        busy = 40 + 25 * self.number % 90
        return (
            super()
            .pulse()
            .model_copy(
                update={
                    "at": now,
                    "uptime": seconds,
                    "connections": 36 + self.number * 211 % 900,
                    "filters": 12 + self.number,
                    "received": int(seconds * busy),
                    "sent": int(seconds * busy * 2.6),
                    "memory": 90_000_000 + self.number * 3_000_000,
                    "loop_lag": 0.002,
                    "forwarded_bytes": {
                        name: int(seconds * 900 * (1 + (self.number + at) % 5))
                        for at, name in enumerate(self.names)
                        if name != self.name
                    },
                    "sees": {row.name: Seen(status=row.status, link=row.link) for row in self.nodes()},
                    "version": "0.1.0",
                }
            )
        )

    def history(self, *, seconds, step):
        now = time.time()
        at = [float(end) for end in range(int(now - seconds) // step * step + step, int(now), step)]
        # A node that was away for some minutes.
        at = [end for end in at if not (self.number == 1 and 1500 < now - end < 1900)]
        wave = [1 + 0.4 * math.sin(end / 400 + self.number) for end in at]
        busy = 40 + 25 * self.number % 90
        return NodeHistory(
            node=self.name,
            step=step,
            at=tuple(at),
            received=tuple(round(busy * one, 1) for one in wave),
            sent=tuple(round(busy * 2.6 * one, 1) for one in wave),
            dropped=tuple(0.0 for _ in wave),
            connections=tuple(int((36 + self.number * 211 % 900) * (0.9 + one / 10)) for one in wave),
            cpu=tuple(round(0.08 * one * (1 + self.number % 4), 3) for one in wave),
            memory=tuple(int(80_000_000 + 6_000_000 * one) for one in wave),
            loop_lag=tuple(0.002 for _ in wave),
        )

    async def trace(self, pid, *, seconds, limit):
        begun, lines = time.monotonic(), 0
        yield TraceLine(time.time(), "tracing", "", pid, "mqtt_channel")
        while time.monotonic() - begun < seconds:
            due = int((time.monotonic() - begun) * self.rate)
            while lines < due:
                lines += 1
                text = f"PUBLISH to plant/{lines % 40}/temperature, QoS 1, {lines % 90} bytes, line {lines}"
                yield TraceLine(time.time(), "bytes", ("in", "out")[lines % 2], "", text)
                if lines == limit:
                    yield TraceLine(time.time(), "over", "", "", f"after {lines} lines; the process lives on")
                    return
            await asyncio.sleep(0.01)


class FakeCluster:
    """``number`` nodes; ``url`` is the API of the first. ``apart``: nodes on a side of their own."""

    def __init__(self, number: int, *, rate: int = 300, apart: tuple[int, ...] = (), form: str = "") -> None:
        names = [(form or "node{}@127.0.0.1").format(at + 1) for at in range(number)]
        split = frozenset(names[at] for at in apart)
        self.views = [BusyView(at, names, rate=rate, apart=split) for at in range(number)]
        self.url = ""
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._quiet = structlog.testing.capture_logs()
        self._quiet.__enter__()
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(self, *failure: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self._quiet.__exit__(*failure)

    async def _serve(self) -> None:
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        first = self.views[0]
        runtime = Runtime(node=first.name)
        for view in self.views:
            first.peers[view.name] = PeerRequests(lambda view=view: make_app(view), runtime)
        first.peers = {name: relay for name, relay in first.peers.items() if not first.is_apart(name)}
        tokens = Tokens(now=SystemClock().wall)
        tokens.attach(FakeTable())
        config = ApiConfig(port=0, rate=100_000)
        make = functools.partial(make_app, first, config=config, tokens=tokens)
        pid = await runtime.start(ApiServer, make, config=config, network=SystemNetwork())
        host, port = await runtime.call(pid, "address")
        self.url = f"http://{host}:{port}"
        self._started.set()
        await self._stop.wait()
        await runtime.stop()
