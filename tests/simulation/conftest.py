import pytest_asyncio
import structlog

from gossamer.testing.cluster import SimCluster


@pytest_asyncio.fixture
async def cluster(sim, request):
    """Nodes 1 to 5, or as many as ``@pytest.mark.parametrize("cluster", [n], indirect=True)`` says; or 5
    with the options of ``SimCluster`` that it says as a dict."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    param = getattr(request, "param", 5)
    made = SimCluster(sim, 5, **param) if isinstance(param, dict) else SimCluster(sim, param)
    yield made
    await made.stop_all()
    structlog.reset_defaults()
