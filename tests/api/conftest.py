import pytest

from api.fakes import FakeView
from api.linked import Linked, client_of
from gossamer.supervisor import Runtime


@pytest.fixture
async def cluster():
    """``cluster(clients, silent=…)`` gives three nodes that are linked."""
    runtime = Runtime(node="relay@127.0.0.1", creation=1)
    yield Linked(runtime).cluster
    await runtime.stop()


@pytest.fixture
def view():
    """A faked node."""
    return FakeView()


@pytest.fixture
async def client(view):
    """A caller on the machine of ``view``."""
    async with client_of(view) as client:
        yield client
