"""Several gossip members in one process, for tests that run it inside a network namespace.

``python gossip_members.py HOST COUNT SEED EXPECTED``: prints ``whole`` once every member sees EXPECTED online
ones, then ``alone`` once each has declared all the others down, with the number of
verdicts so far. Ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import time

import structlog

from gossamer.clock import SystemClock
from gossamer.gossip import (
    GossipServer,
    Join,
    Keyring,
    MemberMetadata,
    MembershipView,
    Status,
    cluster_key,
)
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime


async def main(host: str, count: int, seed: str, expected: int) -> None:
    views = []
    for number in range(count):
        view = MembershipView()
        runtime = Runtime(node=f"node{number}@{host}")
        await runtime.start(
            GossipServer,
            name="gossip",
            metadata=MemberMetadata(runtime.node, creation=1, start_time=time.time(), ports={"mqtt": 1883}),
            bind=(host, 7946 + number),
            keyring=Keyring([cluster_key("namespaces")], env="test"),
            network=SystemNetwork(),
            clock=SystemClock(),
            view=view,
        )
        views.append(view)
        while (seed, 7946) != (host, 7946 + number):
            if (await runtime.call("gossip", Join(((seed, 7946),)), timeout=10)).joined:
                break
            await asyncio.sleep(0.2)

    gone = expected - count
    for word, status, wanted in (("whole", Status.ONLINE, expected), ("alone", Status.OFFLINE, gone)):
        while any(sum(m.status is status for m in v.members()) != wanted for v in views):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        print(word, sum(v.counters["member_down"] for v in views), flush=True)


async def until_told(*arguments: str) -> None:
    host, count, seed, expected = arguments
    work = asyncio.ensure_future(main(host, int(count), seed, int(expected)))
    await asyncio.to_thread(sys.stdin.read)
    work.cancel()


structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
asyncio.run(until_told(*sys.argv[1:]))
