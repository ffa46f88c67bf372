"""The pytest side: a coroutine test that takes ``sim`` or ``virtual_time`` runs on the virtual-time loop.

Load it with ``pytest_plugins = ["gossamer.testing.plugin"]``. Every other coroutine test runs on asyncio's
own loop, as without it. When a test with a ``sim`` fails, its report ends with the command that replays it,
the digest and the last events of the network.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import cast

import pytest
import pytest_asyncio

from gossamer.testing.loop import VirtualTimeLoop
from gossamer.testing.network import SimNetwork
from gossamer.testing.seeds import default_seed, replay_hint

_SIM = pytest.StashKey[SimNetwork]()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    names = getattr(item, "fixturenames", ())
    if "sim" in names or "virtual_time" in names:
        return {"virtual": VirtualTimeLoop}
    return {"system": asyncio.new_event_loop}


@pytest.fixture
def seed() -> int:
    """The seed of a test; ``@seeds(n)`` hands out n of them instead."""
    return default_seed()


@pytest_asyncio.fixture
async def sim(request: pytest.FixtureRequest, seed: int) -> AsyncIterator[SimNetwork]:
    """A simulated network on the test's virtual-time loop."""
    network = SimNetwork(seed=seed)
    request.node.stash[_SIM] = network
    yield network


@pytest_asyncio.fixture
async def virtual_time() -> AsyncIterator[VirtualTimeLoop]:
    """The test's virtual-time loop, for tests that need no network."""
    yield cast("VirtualTimeLoop", asyncio.get_running_loop())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        network = item.stash.get(_SIM, None)
        given = getattr(item, "funcargs", {}).get("seed", network.seed if network is not None else None)
        if given is not None:
            lines = [replay_hint(given, item.nodeid)]
            if network is not None:
                lines.append(f"digest {network.digest()} at virtual time {network.loop.time():.6f} s")
                lines += network.trace.tail()
            report.sections.append((f"simulation, seed {given}", "\n".join(lines)))
    return report
