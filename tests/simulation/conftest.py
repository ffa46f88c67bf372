import pytest_asyncio
import structlog

from gossamer.testing.cluster import SimCluster

from .clusters import Shape


@pytest_asyncio.fixture
async def cluster(sim, request, tmp_path):
    """The nodes that ``@nodes`` asks for; five that are started and settled where there is none."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    shape = getattr(request, "param", Shape())
    made = SimCluster(sim, shape.size, **shape.options)
    made.discs = tmp_path if shape.discs else None
    if shape.start == "in turn":
        for number in range(1, shape.size + 1):
            await made.start(number)
    elif shape.start:
        await made.start()
    if shape.start:
        await made.settled()
    yield made
    await made.stop_all()
