"""Clients that are on another node a moment later, on real nodes: the last connection is served."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from real.clients import enter
from real.harness import Cluster

TRIES = 15


async def hop(ports: tuple[str, str], name: str, how: str, pause: float, *, kept: bool) -> str:
    """What is wrong, if anything."""
    old = await enter(ports[0], name, clean=not kept)
    if how == "goodbye":
        await old.disconnect()
    elif how == "gone":
        old.drop()
    await asyncio.sleep(pause)
    new = await enter(ports[1], name, clean=not kept)
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
        one, three = cluster.port(1), cluster.port(3)
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
