"""A seed is a whole run: the same cluster, the same packets, at the same instants, in any process."""

import os
import subprocess
import sys
from pathlib import Path

from gossamer.testing import LOSSY
from gossamer.testing.cluster import SimCluster

SCRIPT = """
import structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
from gossamer.testing import run_simulation
from simulation.test_replay import scenario
print(*run_simulation(scenario, seed={seed}))
"""


async def scenario(sim):
    """Four nodes through crash, cut and bad weather, with clients; who got what."""
    cluster = SimCluster(sim, 4)
    await cluster.start()
    await cluster.settled()
    listeners = [await cluster.client(number) for number in (1, 2, 3)]
    for listener in listeners:
        await listener.subscribe("a/+", "b/#", qos=2)
    speaker = await cluster.client(2)
    sim.weather(LOSSY)
    for number in range(30):
        await speaker.publish(f"a/{number}", b"x" * number, qos=number % 3)
        if number == 10:
            cluster.crash(4, "silence")
        if number == 20:
            cluster.partition([1], [2, 3])
    cluster.heal()
    await cluster.restart(4)
    await cluster.settled(timeout=120)
    await cluster.stop_all()
    return [len(listener.messages) for listener in listeners]


def run_in_a_process(seed, hash_seed):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(seed=seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_whole_cluster_runs_the_same_in_every_process():
    one, same, other = (
        run_in_a_process(seed, hash_seed) for seed, hash_seed in ((5, "1"), (5, "2"), (6, "1"))
    )
    assert one == same
    assert one != other
