"""The cluster that a test asks for by a decorator, and waiting until something is so.

::

    @nodes(3, seeds=4, discs=True)
    async def test_what_holds(sim, cluster): ...
"""

import asyncio
from dataclasses import dataclass, field

import pytest

from gossamer.testing import seeds as seeded

__all__ = ["Shape", "all_healed", "heal", "mend", "nodes", "restart", "until"]


@dataclass(frozen=True)
class Shape:
    """What the fixture ``cluster`` makes; ``start``: all at once, or "in turn", the first is the oldest."""

    size: int = 5
    start: bool | str = True
    discs: bool = False
    options: dict = field(default_factory=dict)


def nodes(size=5, *, seeds=1, start=True, discs=False, **options):
    """Run a test on so many nodes, settled unless ``start`` is false, with so many seeds, or those of a list.

    ``discs``: nodes keep what must survive; a list runs it once for each. The rest are options of
    ``SimCluster``.
    """
    shapes = {
        f"{size} nodes, {'on disc' if kind else 'in memory'}": Shape(size, start, kind, options)
        for kind in ([discs] if isinstance(discs, bool) else discs)
    }
    cluster = pytest.mark.parametrize("cluster", shapes.values(), indirect=True, ids=shapes)
    seed = seeded(seeds) if isinstance(seeds, int) else pytest.mark.parametrize("seed", seeds)
    return lambda test: seed(cluster(test))


async def until(holds, *, within=30.0, pause=0.01):
    """Wait until a condition of which nobody tells holds."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(pause)


async def restart(cluster, number, *, among=(), timeout=90.0, pause=0.0):
    """A new life of a node, until nothing differs between the nodes, or those named, and so long besides."""
    await cluster.restart(number)
    await _settled(cluster, among, timeout, pause)


async def heal(cluster, *, among=(), timeout=90.0, pause=0.0):
    """End all cuts, and wait in the same way."""
    cluster.heal()
    await _settled(cluster, among, timeout, pause)


async def _settled(cluster, among, timeout, pause):
    await cluster.settled(*among, timeout=timeout)
    if pause:
        await asyncio.sleep(pause)


async def all_healed(cluster, count=1, within=120):
    """Wait until every node has seen so many splits, and none is open."""

    def healed(healing):
        return len(healing.history) >= count and not healing.open and healing.phase == "idle"

    await until(
        lambda: all(healed(node.healing) for node in cluster.nodes.values()), within=within, pause=0.5
    )


async def mend(cluster, *, pause=5.0):
    """End all cuts, wait until every node has healed, and so long besides."""
    cluster.heal()
    await all_healed(cluster)
    await asyncio.sleep(pause)
