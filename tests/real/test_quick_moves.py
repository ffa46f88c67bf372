"""Clients that are on another node a moment later, on real nodes: the last connection is served."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork
from real.harness import Cluster

TRIES = 15


async def enter(port: int, name: str, *, kept: bool) -> MqttClient:
    expiry = 300 if kept else 0
    address = ("127.0.0.1", port)
    return await MqttClient.connect(
        SystemNetwork(), address, name, clean_start=not kept, session_expiry=expiry, timeout=60
    )


async def hop(ports: tuple[int, int], name: str, how: str, pause: float, *, kept: bool) -> str:
    """What is wrong, if anything."""
    old = await enter(ports[0], name, kept=kept)
    if how == "goodbye":
        await old.disconnect()
    elif how == "gone":
        old.drop()
    await asyncio.sleep(pause)
    new = await enter(ports[1], name, kept=kept)
    if how == "stays":
        async with asyncio.timeout(60):
            await old.lost
    # Whoever is thrown out is thrown out by a claim that is on its way by now.
    await asyncio.sleep(0.5)
    wrong = "" if new.connected else f"thrown out ({new.left})"
    if new.session_present != kept:
        wrong += f" session present {new.session_present}"
    new.drop()
    return wrong


@pytest.mark.timeout(250)
async def test_a_client_that_moves_within_milliseconds_is_served_where_it_came_last(tmp_path: Path) -> None:
    cluster = await asyncio.to_thread(Cluster(tmp_path).__enter__)
    rng = random.Random(1)
    try:
        one, three = int(cluster.port(1)), int(cluster.port(3))
        for ports in ((three, one), (one, three)):
            for how in ("goodbye", "gone", "stays"):
                for kept in (True, False):
                    tries = (
                        hop(ports, f"{how}{kept}{ports[0]}-{n}", how, rng.uniform(0, 0.03), kept=kept)
                        for n in range(TRIES)
                    )
                    wrong = [answer for answer in await asyncio.gather(*tries) if answer]
                    assert not wrong, (how, kept, ports == (three, one), wrong)
    finally:
        await asyncio.to_thread(cluster.end)
