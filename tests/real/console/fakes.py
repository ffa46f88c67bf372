"""A cluster of faked nodes behind a real API server, for what a browser shows of many or busy ones."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from api.fakes import FakeView, member
from api.served import in_thread, served

from gossamer.api import PeerRequests, make_app
from gossamer.api.model.cluster import NodeHistory
from gossamer.api.model.node import ClientInfo
from gossamer.supervisor import TraceLine

KINDS = ("up", "link_up", "suspected", "refuted", "link_down", "down", "healed")


class BusyView(FakeView):
    """One of many nodes: clients, traffic, an hour of history, and a process that can be traced at a rate."""

    def __init__(self, number: int, names: list[str], *, rate: int) -> None:
        topics = [f"t/{at:03}" for at in range(150)]
        super().__init__(name=names[number], filters=topics)
        self.kept = topics
        self.number, self.names, self.rate = number, names, rate
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


@contextmanager
def fake_cluster(number: int, *, rate: int = 300) -> Iterator[str]:
    """Serve ``number`` nodes; the URL of the API of the first."""
    names = [f"node{at + 1}@127.0.0.1" for at in range(number)]
    first, *others = (BusyView(at, names, rate=rate) for at in range(number))
    with in_thread(lambda: served(first)) as (node, _):
        first.peers = {
            view.name: PeerRequests(lambda view=view: make_app(view), node.runtime)
            for view in (first, *others)
        }
        yield node.url
