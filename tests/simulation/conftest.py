import pytest_asyncio
import structlog

from gossamer.testing.cluster import SimCluster


@pytest_asyncio.fixture
async def cluster(sim, request):
    """Nodes 1 to 5, or as many as ``@pytest.mark.parametrize("cluster", [n], indirect=True)`` says."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    made = SimCluster(sim, getattr(request, "param", 5))
    yield made
    await made.stop_all()
    structlog.reset_defaults()
