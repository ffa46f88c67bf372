"""Nodes that are stopped in order say goodbye once, are believed, and nobody takes it for a split."""

import asyncio

import pytest

from .clusters import nodes

NAMES = {number: f"node{number}@10.0.0.{number}" for number in (1, 2, 3)}


def splits(cluster):
    """Notes of splits and heals, wherever they are."""
    quiet = {"up", "suspected", "refuted", "down", "left", "link_up", "link_down"}
    nodes = cluster.nodes.values()
    return [note for node in nodes for note in node.event_log.after(0) if note.kind not in quiet]


@nodes(3, seeds=3, discs=True)
@pytest.mark.parametrize("batch", [(3,), (1, 2), (2, 3), (3, 1), (3, 2, 1)], ids=str)
async def test_who_is_stopped_is_believed_at_once_and_back_without_a_heal(sim, cluster, batch):
    rng = sim.rng("stops")
    for _ in range(2):
        staying = [node for number, node in cluster.nodes.items() if number not in batch]
        before = {node.name: node.event_log.after(0)[-1].serial for node in staying}

        async def stop(number):
            await asyncio.sleep(rng.choice([0, rng.uniform(0, 2)]))
            await cluster.stop(number)

        await asyncio.gather(*map(stop, batch))
        await asyncio.sleep(5)
        for node in staying:
            for number in batch:
                news = [
                    (note.kind, note.text)
                    for note in node.event_log.after(before[node.name])
                    if note.peer == NAMES[number] and note.kind != "link_down"
                ]
                assert news == [("down", "stopped")]
            assert not node.members.hints
            stopped = {member.name for member in node.members.members() if member.stopped}
            assert stopped == {NAMES[number] for number in batch}
        await cluster.start(*batch)
        await cluster.settled()
        await asyncio.sleep(15)
        assert not splits(cluster)
        assert not any(node.healing.open for node in cluster.nodes.values())
