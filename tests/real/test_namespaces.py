"""Gossip between network namespaces: paths that behave badly for real. Needs root and iproute2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE = 60
MEMBERS = Path(__file__).with_name("gossip_members.py")
EACH = 6


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def path() -> Iterator[list[str]]:
    """Two namespaces, 10.77.0.1 and 10.77.0.2, and a cable between them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the ip command")
    spaces = [f"gossamer-{os.getpid()}-{side}" for side in "ab"]
    try:
        for space in spaces:
            if made := ip("netns", "add", space).stderr:
                pytest.skip(f"no network namespaces here: {made.strip()}")
        link = ip(
            "link", "add", "cable", "netns", spaces[0], "type", "veth", "peer", "cable", "netns", spaces[1]
        )
        if link.returncode:
            pytest.skip(f"no veth here: {link.stderr.strip()}")
        for number, space in enumerate(spaces, 1):
            ip("-n", space, "address", "add", f"10.77.0.{number}/24", "dev", "cable")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "set", "cable", "up")
        yield spaces
    finally:
        for space in spaces:
            ip("netns", "delete", space)


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
    mtu = getattr(request, "param", 1500)
    ip("-n", path[1], "link", "set", "cable", "mtu", str(mtu))
    sides = [Side(space, f"10.77.0.{number}") for number, space in enumerate(path, 1)]
    yield sides
    for side in sides:
        side.end()


@pytest.mark.parametrize("sides", [600], indirect=True)
def test_a_path_smaller_than_assumed_still_carries_a_cluster(sides: list[Side]) -> None:
    """One end takes 600 bytes and drops what is larger, without a word to the sender."""
    assert [side.says() for side in sides] == [["whole", "0"], ["whole", "0"]]


def test_a_cable_that_is_pulled_leaves_each_side_whole(path: list[str], sides: list[Side]) -> None:
    assert [side.says()[0] for side in sides] == ["whole", "whole"]
    ip("-n", path[1], "link", "set", "cable", "down")
    # Each side declares every member of the other, and none of its own.
    assert [side.says() for side in sides] == [["alone", str(EACH * EACH)]] * 2
