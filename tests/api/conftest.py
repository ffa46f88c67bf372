import pytest

from api.linked import Linked
from gossamer.supervisor import Runtime


@pytest.fixture
async def cluster():
    """``cluster(clients, silent=…)`` gives three nodes that are linked."""
    runtime = Runtime(node="relay@127.0.0.1", creation=1)
    yield Linked(runtime).cluster
    await runtime.stop()
