"""Gossip between network namespaces: paths that behave badly for real. Needs root and iproute2."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gossamer.drill.stage.backend import BackEndError
from gossamer.drill.stage.netns import Namespaces, check_rights

PATIENCE = 60
MEMBERS = Path(__file__).with_name("gossip_members.py")
EACH = 6
Cut = Callable[[list[str]], None]


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def path() -> Iterator[list[str]]:
    """Two namespaces, 10.77.0.1 and 10.77.0.2, and a bridge between them, as a drill has them."""
    net = Namespaces(2, abilities=frozenset())
    try:
        check_rights()
        net.open()
        yield net.plan.spaces()[1:]
    except BackEndError as error:
        pytest.skip(str(error))
    finally:
        net.close()


class Side:
    """A process with members inside a namespace."""

    def __init__(self, space: str, host: str) -> None:
        command = [sys.executable, str(MEMBERS), host, str(EACH), "10.77.0.1", str(2 * EACH)]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", space, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> list[str]:
        """Its next line; empty when it ended, at the latest after a minute."""
        assert self.process.stdout is not None
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline().split()
        finally:
            timer.cancel()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def sides(path: list[str], request: pytest.FixtureRequest) -> Iterator[list[Side]]:
    """Six members in each namespace, to join through one of the first. ``param``: what is wrong before."""
    wrong = getattr(request, "param", None)
    if wrong is not None:
        wrong(path)
    sides = [Side(space, f"10.77.0.{number}") for number, space in enumerate(path, 1)]
    yield sides
    for side in sides:
        side.end()


def small_mtu(path: list[str]) -> None:
    """One end takes 600 bytes and drops what is larger, without a word to the sender."""
    ip("-n", path[1], "link", "set", "cable", "mtu", "600")


def drop(space: str, *what: str) -> None:
    """Swallow what comes in by the cable."""
    made = ip("-n", space, "rule", "add", "priority", "10", "iif", "cable", *what, "blackhole")
    if made.returncode:
        pytest.skip(f"no such rules here: {made.stderr.strip()}")


def no_udp(path: list[str]) -> None:
    """Streams pass both ways, datagrams neither."""
    for space in path:
        drop(space, "ipproto", "udp")


@pytest.mark.parametrize("sides", [small_mtu, no_udp], indirect=True)
def test_a_path_worse_than_assumed_still_carries_a_cluster(sides: list[Side]) -> None:
    assert [side.says() for side in sides] == [["whole", "0"], ["whole", "0"]]


def pulled(path: list[str]) -> None:
    """Both ends see the cable go."""
    for space in path:
        ip("-n", space, "link", "set", "cable", "down")


def deaf(path: list[str]) -> None:
    """One end hears nothing any more, the other hears all."""
    drop(path[1], "from", "10.77.0.1")


@pytest.mark.parametrize("cut", [pulled, deaf])
def test_a_cut_leaves_each_side_whole(path: list[str], sides: list[Side], cut: Cut) -> None:
    """Also where one side still hears the other: an answer that never comes is none."""
    assert [side.says()[0] for side in sides] == ["whole", "whole"]
    cut(path)
    # Each side declares every member of the other, and none of its own.
    assert [side.says() for side in sides] == [["alone", str(EACH * EACH)]] * 2
