"""A counter in a table of a quorum, on real nodes that are killed, paused and cut: judged by what was
acknowledged."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from real.harness import eventually
from real.test_graceful_stop import Fleet
from real.test_unique_names import cut


def steps(file):
    """Each acknowledged step: when it was begun and ended, and the value that it made."""
    lines = [line.split() for line in file.read_text().splitlines()]
    return [(float(begun), float(ended), int(value)) for begun, ended, _, value in lines]


def out_of_order(done):
    """Steps that were begun once a greater value had been acknowledged."""
    wrong, greatest, ended = [], 0, sorted(done, key=lambda step: step[1])
    for begun, _, value in sorted(done):
        while ended and ended[0][1] < begun:
            greatest = max(greatest, ended.pop(0)[2])
        if value <= greatest:
            wrong.append((begun, value, greatest))
    return wrong


def test_the_judge_sees_a_step_that_was_lost():
    assert out_of_order([(0, 1, 1), (2, 3, 2), (2.5, 4, 3)]) == []
    assert out_of_order([(0, 1, 1), (2, 3, 2), (4, 5, 2)]) == [(4, 2, 2)]


@pytest.mark.timeout(280)
@pytest.mark.parametrize("seed", [int(os.environ.get("SEED", "1"))])
def test_no_acknowledged_step_is_lost_or_done_twice(tmp_path, monkeypatch, seed):
    rng, file = random.Random(seed), tmp_path / "counts"
    file.touch()
    monkeypatch.setenv("COUNTS", str(file))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    fleet = Fleet(tmp_path, node={"applications": ["real.counters:children"]}, drill={"faults": True})

    def goes_on(count=20):
        before = len(steps(file))
        eventually(lambda: len(steps(file)) >= before + count, says="more steps")

    try:
        fleet.start(1, 2, 3)
        goes_on()
        for _ in range(5):
            number = rng.choice((1, 2, 3))
            match rng.choice(("kill", "kill all", "pause", "cut")):
                case "kill":
                    fleet.nodes.pop(number).end(signal.SIGKILL)
                    time.sleep(rng.uniform(0, 10))
                    fleet.start(number)
                case "kill all":
                    for one in (1, 2, 3):
                        fleet.nodes.pop(one).end(signal.SIGKILL)
                    fleet.start(1, 2, 3)
                case "pause":
                    process = fleet.nodes[number].process
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(rng.uniform(2, 15))
                    process.send_signal(signal.SIGCONT)
                case "cut":
                    cut(fleet, number)
                    time.sleep(rng.uniform(2, 15))
                    cut(fleet, 0)
            goes_on()
    finally:
        for node in fleet.nodes.values():
            node.end()
    done = steps(file)
    values = [value for *_, value in done]
    assert len(values) == len(set(values))
    assert out_of_order(done) == []
