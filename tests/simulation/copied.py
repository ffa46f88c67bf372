"""Clusters whose sessions are copied to a quorum."""

import asyncio

from gossamer.basekv import KINDS
from gossamer.basekv.ranges import kind_of
from gossamer.raft.host.messages import Transfer

from .clusters import until

COPIED = {"discs": True, "sessions": {"replication": "auto"}}
STRICT = {"discs": True, "sessions": {"replication": "auto", "on_no_quorum": "refuse"}}


async def formed(cluster):
    """Wait until all nodes copy their sessions, and each range has a leader."""
    copies = [node.broker.copies for node in cluster.nodes.values()]
    await until(lambda: all(one.begun() for one in copies), within=90, pause=0.5)
    led = set()
    async with asyncio.timeout(60):
        while not led >= set(KINDS):
            for node in cluster.nodes.values():
                groups = await node.runtime.call("raft", "status")
                led |= {group["kind"] for group in groups if group["role"] == "leader"}
            await asyncio.sleep(0.5)


async def led(cluster, leaders):
    """Have ranges led by nodes, by their numbers."""
    wanted = {kind_of(number): cluster.nodes[node] for number, node in leaders.items()}
    async with asyncio.timeout(60):
        while wanted:
            for node in cluster.nodes.values():
                for group in await node.runtime.call("raft", "status"):
                    to = wanted.get(group["kind"])
                    if group["role"] == "leader" and to is node:
                        del wanted[group["kind"]]
                    elif group["role"] == "leader" and to is not None:
                        await node.runtime.call("raft", Transfer(int(group["group"], 16), to.name))
            await asyncio.sleep(0.2)


def having(cluster, client_id):
    """Numbers of the nodes that have a client's session."""
    return [number for number, node in cluster.nodes.items() if client_id in node.broker.sessions]
