"""Seeds: how many a test runs with, and how a failing one comes back.

Rules: 1. ``GOSSAMER_SEED=n`` makes every seeded test run with that seed only.  2. ``GOSSAMER_SEEDS=n`` makes
``@seeds`` tests run with n seeds, for a night's run.  3. Seeds are small integers from 0, so that a failure
in one run is found again in the next.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from gossamer.testing.links import LAN, LinkQuality
from gossamer.testing.loop import VirtualTimeLoop
from gossamer.testing.network import SimNetwork

T = TypeVar("T")

_ONE = "GOSSAMER_SEED"
_MANY = "GOSSAMER_SEEDS"


def seeds(count: int) -> pytest.MarkDecorator:
    """Run a test once for each of ``count`` seeds, handed to it and to its ``sim`` as ``seed``."""
    one = os.environ.get(_ONE)
    chosen = [int(one)] if one else range(int(os.environ.get(_MANY, count)))
    return pytest.mark.parametrize("seed", chosen, ids=[f"seed{seed}" for seed in chosen])


def default_seed() -> int:
    """For a seeded test that asks for no number of seeds."""
    return int(os.environ.get(_ONE, 0))


def fix_hashes() -> None:
    """Start this command again with hashes that are the same in every process, where they are not.

    Sets are walked in the order of the hashes, so a seed comes back only with them.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - itself


def replay_hint(seed: int, nodeid: str) -> str:
    """The command that runs one failure again."""
    return f"{_ONE}={seed} pytest '{nodeid.split('[')[0]}'"


def run_simulation(
    scenario: Callable[[SimNetwork], Awaitable[T]], *, seed: int, quality: LinkQuality = LAN
) -> tuple[T, str]:
    """Run a scenario on a loop and a network of its own, outside pytest; its result and the digest."""

    async def run() -> tuple[T, str]:
        sim = SimNetwork(seed=seed, quality=quality)
        result = await scenario(sim)
        return result, sim.digest()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())
