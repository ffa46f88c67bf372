"""The test bench: a virtual-time event loop, and a seeded network on which whole nodes run.

Usage, with :mod:`gossamer.testing.plugin` loaded by pytest::

    @seeds(5)
    async def test_a_split_heals(sim: SimNetwork) -> None:
        one, two = sim.host("10.0.0.1"), sim.host("10.0.0.2")
        ...
        sim.partition(["10.0.0.1"], ["10.0.0.2"])
        await asyncio.sleep(3600)  # an hour passes at once

A failure prints its seed; ``GOSSAMER_SEED=<seed>`` replays it, ``GOSSAMER_SEEDS=<n>`` runs n of them.
"""

from gossamer.testing.host import SimHost, SimListener
from gossamer.testing.links import LAN, LOSSY, SLOW, WAN, LinkQuality
from gossamer.testing.loop import (
    SIMULATED_EPOCH,
    DeadlockError,
    RealInputOutputError,
    RunawayError,
    SimClock,
    VirtualTimeLoop,
)
from gossamer.testing.medium import Crash, Trace
from gossamer.testing.network import SimNetwork
from gossamer.testing.seeds import run_simulation, seeds
from gossamer.testing.window import StreamLimits

__all__ = [
    "LAN",
    "LOSSY",
    "SIMULATED_EPOCH",
    "SLOW",
    "WAN",
    "Crash",
    "DeadlockError",
    "LinkQuality",
    "RealInputOutputError",
    "RunawayError",
    "SimClock",
    "SimHost",
    "SimListener",
    "SimNetwork",
    "StreamLimits",
    "Trace",
    "VirtualTimeLoop",
    "run_simulation",
    "seeds",
]
