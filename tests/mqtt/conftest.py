import pytest
from certs import Authority

from .fakes import FakeRouter
from .harness import World


@pytest.fixture
async def world():
    world = World()
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def make_world():
    worlds = []

    async def make(**options):
        world = World(**options)
        worlds.append(world)
        await world.start()
        return world

    yield make
    for world in worlds:
        await world.stop()


@pytest.fixture
async def fake_world(make_world):
    """Its router is a fake that says when routes are visible."""
    return await make_world(router=FakeRouter())


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path)
