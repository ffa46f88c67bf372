"""The cluster that a test asks for by a decorator, and waiting until something is so.

::

    @nodes(3, seeds=4, discs=True)
    async def test_what_holds(sim, cluster): ...
"""

import asyncio
from dataclasses import dataclass, field

import pytest

from gossamer.testing import seeds as seeded

__all__ = ["Shape", "nodes", "until"]


@dataclass(frozen=True)
class Shape:
    """What the fixture ``cluster`` makes; ``start``: all at once, or "in turn", the first is the oldest."""

    size: int = 5
    start: bool | str = True
    discs: bool = False
    options: dict = field(default_factory=dict)


def nodes(size=5, *, seeds=1, start=True, discs=False, **options):
    """Run a test on so many nodes, settled unless ``start`` is false, with so many seeds, or those of a list.

    ``discs``: nodes keep what must survive. The rest are options of ``SimCluster``.
    """
    cluster = pytest.mark.parametrize(
        "cluster", [Shape(size, start, discs, options)], indirect=True, ids=[f"{size} nodes"]
    )

    seed = seeded(seeds) if isinstance(seeds, int) else pytest.mark.parametrize("seed", seeds)
    return lambda test: seed(cluster(test))


async def until(holds, *, within=30.0, pause=0.01):
    """Wait until a condition of which nobody tells holds."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(pause)
