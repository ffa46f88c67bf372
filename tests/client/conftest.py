import pytest_asyncio
import structlog

from gossamer.client import Client
from gossamer.distribution import StreamTransport
from gossamer.testing.cluster import LINK_PORT, SimCluster, address_of


@pytest_asyncio.fixture
async def cluster(sim):
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    async with SimCluster(sim, 3) as made:
        await made.settled()
        yield made
    structlog.reset_defaults()


@pytest_asyncio.fixture
async def client_of(sim, cluster):
    """Clients on hosts of their own, which know the nodes given."""
    made = []

    async def make(*numbers, **options):
        host = sim.host(f"10.2.0.{len(made) + 1}")
        client = Client(
            [(address_of(number), LINK_PORT) for number in numbers or (1, 2, 3)],
            transport=StreamTransport(host),
            name=f"client{len(made) + 1}@{host.address}",
            **{"cookie": "simulated-cookie", "timeout": 30.0, "env": "simulation"} | options,
        )
        made.append(client)
        await client.start()
        return client

    yield make
    for client in made:
        await client.stop()
