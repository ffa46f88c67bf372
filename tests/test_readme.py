"""The README's session, typed as it stands: every command runs, every line of output is true.

Blocks marked ``console`` are terminals: a line that starts with ``$`` is typed, the lines below it are what
must come. Numbers that differ from run to run (process ids, incarnations, times) are compared by their place.
``./script/up`` and ``mosquitto_sub`` keep running; what they print is compared at the end.

The ports are the default ones, so the session runs in a network namespace of its own where the system lets
it, undisturbed by whatever else listens on this machine.
"""

from __future__ import annotations

import fcntl
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0
KEEPS_RUNNING = ("./script/up", "mosquitto_sub")

pytestmark = pytest.mark.real


@dataclass
class Typed:
    command: str
    expected: str


def console_blocks(text: str) -> list[Typed]:
    """What is typed, in order, with the output below it."""
    typed: list[Typed] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            typed.append(Typed(command, expected))
    return typed


def same_shape(text: str) -> str:
    """``text`` without what differs from run to run and nobody can promise."""
    ports = {str(base + node) for base in (1883, 8091, 7946, 4370) for node in range(3)}

    def number(found: re.Match[str]) -> str:
        return found[0] if found[0] in ports or len(found[0]) == 1 else "<n>"

    lines = []
    for line in text.rstrip().splitlines():
        if line.startswith("{"):
            line = json.dumps(_without_order(json.loads(line)))
        line = re.sub(r'"[0-9a-f]{16}"', '"<id>"', line)
        line = re.sub(r"\b\d+[smhd]\b", "<time>", line)
        line = re.sub(r"(?<![\w.])\d+(?![\w.])", number, line)
        lines.append(re.sub(r"\s+", " ", line).strip())
    return "\n".join(lines)


def _without_order(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_order(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return sorted((_without_order(item) for item in tree), key=lambda item: str(item.get("port", item)))
    return tree


class Terminal:
    """One typed command; ``up`` shows its ready line on standard output and the rest on standard error."""

    def __init__(self, typed: Typed, directory: Path, number: int) -> None:
        self.typed = typed
        self.keeps_running = typed.command.startswith(KEEPS_RUNNING)
        self._out = directory / f"out{number}"
        with self._out.open("w") as out, (directory / f"err{number}").open("w") as err:
            self.process = subprocess.Popen(
                ["bash", "-c", ("exec " if self.keeps_running else "") + typed.command],
                cwd=directory,
                stdout=out,
                stderr=err if self.keeps_running else out,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def is_right(self) -> bool:
        return same_shape(self.out) == same_shape(self.typed.expected)

    def check(self) -> None:
        """Fail unless it printed what the README says."""
        deadline = time.monotonic() + PATIENCE
        while not self.is_right and time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        assert same_shape(self.out) == same_shape(self.typed.expected), f"$ {self.typed.command}\n{self.out}"


def play(directory: Path) -> None:
    """Type the whole session in ``directory``."""
    for name in ("script", ".venv"):
        (directory / name).symlink_to(ROOT / name)
    running: list[Terminal] = []
    try:
        for number, typed in enumerate(console_blocks((ROOT / "README.md").read_text())):
            terminal = Terminal(typed, directory, number)
            if not terminal.keeps_running:
                terminal.process.wait(PATIENCE)
                terminal.check()
                continue
            running.append(terminal)
            if typed.command.startswith("mosquitto_sub"):
                _wait_for_subscription(directory)
            else:
                terminal.check()
        for terminal in running:
            terminal.check()
    finally:
        for terminal in reversed(running):
            terminal.process.send_signal(signal.SIGINT)
            terminal.process.wait(PATIENCE)


def _wait_for_subscription(directory: Path) -> None:
    command = [".venv/bin/gossamer", "topics", "--json"]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
        if json.loads(answer.stdout)["items"]:
            return
    raise AssertionError("the subscription did not reach node 1")


def _loopback_up() -> None:
    """A new network namespace starts with its loopback interface down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        up_and_running = 0x1 | 0x40
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", up_and_running))


def _own_network() -> list[str]:
    for command in (["unshare", "--net"], ["unshare", "--net", "--user", "--map-root-user"]):
        try:
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            break
    return []


def _is_set_up() -> bool:
    check = ["bash", "-c", "source script/env && environment_is_current up"]
    return subprocess.run(check, cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.timeout(240)
def test_the_first_session_is_true(tmp_path):
    if not _is_set_up():
        # Cut off from the network it could not be made, and it is not for a test to change.
        pytest.skip("the session needs the environment that ./script/test makes")
    apart = _own_network()
    command = [*apart, sys.executable, __file__, str(tmp_path), "apart" if apart else "here"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=230, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_the_readme_has_a_session():
    typed = console_blocks((ROOT / "README.md").read_text())
    assert typed[0].command == "./script/up"
    assert len(typed) >= 6


def test_links_of_the_readme_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


if __name__ == "__main__":
    if sys.argv[2] == "apart":
        _loopback_up()
    play(Path(sys.argv[1]))
