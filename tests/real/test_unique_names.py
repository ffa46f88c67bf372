"""A name with one holder, on real nodes that are killed, paused and cut: judged by what the holders wrote."""

import os
import random
import signal
import time
from pathlib import Path

import httpx
import pytest

from real.harness import eventually
from real.test_graceful_stop import Fleet

WAKING = 1.0
"""Seconds in which a holder that was paused may run before it is killed."""


def tenures(file):
    """By fence, in order: its node, and when it wrote first and last."""
    found = {}
    for line in file.read_text().splitlines():
        at, node, fence = line.split()
        begun = found.get(int(fence), (node, float(at)))[1]
        found[int(fence)] = node, begun, float(at)
    return sorted(found.items())


def overlaps(file, woken):
    """The tenures that went on beyond the beginning of a later one; but for who was just woken."""
    lines = [line.split() for line in file.read_text().splitlines()]
    begun = {fence: first for fence, (_, first, _) in tenures(file)}
    wrong = []
    for at, node, fence in lines:
        later = [other for other, first in begun.items() if other > int(fence) and first < float(at)]
        if later and not any(node == name and 0 <= float(at) - then < WAKING for name, then in woken):
            wrong.append((float(at), node, int(fence), later))
    return wrong


def cut(fleet, number):
    """Cut a node off from the others; 0: none any more."""
    for one, node in fleet.nodes.items():
        apart = [other.name for n, other in fleet.nodes.items() if number in (one, n) and n != one]
        faults = [{"peer": name, "cut": True} for name in apart if number]
        answer = httpx.put(
            f"{node.api}/api/v1/drill/faults", json={"faults": faults}, trust_env=False, timeout=30
        )
        assert answer.status_code == 200, answer.text


@pytest.mark.timeout(280)
@pytest.mark.parametrize("seed", [int(os.environ.get("SEED", "1"))])
def test_no_two_processes_hold_a_name_at_once(tmp_path, monkeypatch, seed):
    rng, file, woken = random.Random(seed), tmp_path / "held", []
    file.touch()
    monkeypatch.setenv("HOLDERS", str(file))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    fleet = Fleet(tmp_path, node={"applications": ["real.holders:children"]}, drill={"faults": True})
    try:
        fleet.start(1, 2, 3)
        eventually(lambda: len(tenures(file)) >= 2, says="holders")
        for _ in range(5):
            number = rng.choice((1, 2, 3))
            match rng.choice(("kill", "pause", "cut")):
                case "kill":
                    fleet.nodes.pop(number).end(signal.SIGKILL)
                    time.sleep(rng.uniform(0, 15))
                    fleet.start(number)
                case "pause":
                    process = fleet.nodes[number].process
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(rng.uniform(2, 20))
                    woken.append((fleet.nodes[number].name, time.monotonic()))
                    process.send_signal(signal.SIGCONT)
                case "cut":
                    cut(fleet, number)
                    time.sleep(rng.uniform(2, 20))
                    cut(fleet, 0)
        before = len(tenures(file))
        eventually(lambda: len(tenures(file)) >= before + 2, says="more holders")
    finally:
        for node in fleet.nodes.values():
            node.end()
    assert overlaps(file, woken) == []
    firsts = [first for _, (_, first, _) in tenures(file)]
    assert firsts == sorted(firsts)
