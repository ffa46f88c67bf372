import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gossamer.testing import run_simulation

from . import storm

pytest_plugins = ["pytester"]


def run_in_a_process(seed, hash_seed):
    script = (
        "from testing.storm import storm; from gossamer.testing import run_simulation; "
        f"print(*run_simulation(storm, seed={seed}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_seed_gives_one_digest_in_every_process():
    """Whatever PYTHONHASHSEED and the addresses of memory are."""
    assert run_in_a_process(11, "1") == run_in_a_process(11, "2")


def test_other_seeds_give_other_runs():
    runs = {seed: run_simulation(storm.storm, seed=seed) for seed in range(4)}
    assert len({digest for _, digest in runs.values()}) == 4
    assert run_simulation(storm.storm, seed=3) == runs[3]


FAILING = """
    import asyncio
    from gossamer.testing import seeds

    @seeds(3)
    async def test_fails_with_one_seed(sim):
        sim.host("10.0.0.1")
        sim.isolate("10.0.0.1")
        await asyncio.sleep(60)
        assert sim.seed != 2

    async def test_never_ends(sim):
        await asyncio.Event().wait()
"""


@pytest.fixture
def suite(pytester):
    pytester.makeconftest('pytest_plugins = ["gossamer.testing.plugin"]')
    pytester.makepyfile(textwrap.dedent(FAILING))
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def test_a_failing_seed_prints_itself(suite, monkeypatch):
    monkeypatch.delenv("GOSSAMER_SEED", raising=False)
    monkeypatch.delenv("GOSSAMER_SEEDS", raising=False)
    result = suite.runpytest_inprocess("-k", "one_seed")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*simulation, seed 2*",
            "GOSSAMER_SEED=2 pytest '*::test_fails_with_one_seed'",
            "digest * at virtual time 60.*",
        ]
    )


def test_a_seed_is_replayed_and_their_number_chosen_by_environment(suite, monkeypatch):
    monkeypatch.setenv("GOSSAMER_SEED", "2")
    suite.runpytest_inprocess("-k", "one_seed").assert_outcomes(failed=1)
    monkeypatch.delenv("GOSSAMER_SEED")
    monkeypatch.setenv("GOSSAMER_SEEDS", "5")
    suite.runpytest_inprocess("-k", "one_seed").assert_outcomes(passed=4, failed=1)


def test_a_deadlock_fails_the_test_instead_of_hanging(suite):
    result = suite.runpytest_inprocess("-k", "never_ends")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*DeadlockError: deadlock at virtual time*"])
