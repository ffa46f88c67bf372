"""``gossamer cluster leave --drain`` on real nodes: clients go where they are told, with their sessions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from real.clients import enter
from real.harness import Cluster, run


@pytest.mark.timeout(200)
async def test_a_node_is_drained_and_leaves(tmp_path: Path) -> None:
    cluster = await asyncio.to_thread(Cluster(tmp_path, nodes=2).__enter__)
    try:
        first, second = cluster.port(1), cluster.port(2)
        here = await enter(first, "here")
        away = await enter(first, "away")
        for client in (here, away):
            await client.subscribe("t", qos=1)
        await away.disconnect()
        speaker = await enter(second, "speaker", clean=True)
        await speaker.publish("t", b"1", qos=1)
        command = ("cluster", "leave", "--drain", "--json", "--api", cluster.api(1))
        leaving = asyncio.create_task(asyncio.to_thread(run, *command, timeout=120))
        async with asyncio.timeout(60):
            await here.lost
        assert (here.left, here.payloads()) == (0x9C, [b"1"])
        moved = await enter(second, "here")
        assert moved.session_present
        outcome = await leaving
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert json.loads(outcome.stdout)["done"] == f"{cluster.nodes[0]['name']} left"
        await speaker.publish("t", b"2", qos=1)
        late = await enter(second, "away")
        assert late.session_present
        async with asyncio.timeout(60):
            while late.payloads() != [b"1", b"2"] or moved.payloads() != [b"2"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for client in (moved, late, speaker):
            client.drop()
            await client.lost
    finally:
        await asyncio.to_thread(cluster.end)
