import contextlib

import pytest
from certs import Authority

from .fakes import FakeForwarder, FakeRouter
from .harness import World


@pytest.fixture
def world_class():
    """What ``make_world`` makes."""
    return World


@pytest.fixture
async def make_world(world_class):
    async with contextlib.AsyncExitStack() as stack:

        async def make(**options):
            return await stack.enter_async_context(world_class(**options))

        yield make


@pytest.fixture
async def world(make_world):
    return await make_world()


@pytest.fixture
async def fake_world(make_world):
    """Its router is a fake that says when routes are visible."""
    return await make_world(router=FakeRouter())


@pytest.fixture
async def two(make_world):
    """Two nodes, what goes from the first to the second, and a function that has it arrive there."""
    here, there = await make_world(router=FakeRouter()), await make_world(router=FakeRouter())
    forwarder = FakeForwarder()
    here.router.add_peer("a/#", forwarder)

    def carry():
        records, forwarder.records = forwarder.records, []
        if records:
            there.router.callback("here", b"".join(records))
        forwarder.settle()

    return here, there, forwarder, carry


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path)
