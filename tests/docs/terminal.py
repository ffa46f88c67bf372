"""The terminals of a page: one shell whose variables and directory stay, and programs that keep running.

Rules: 1. What does not end by itself is known by its name (or ends in ``&``); it is begun, and ended with
Ctrl-C when the page is over.  2. A server is waited for until it printed what the page says; a subscriber
until the nodes route to it, and what it prints is compared at the end, as it comes from what is typed later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from docs.blocks import Typed
from docs.likeness import difference, is_like

PATIENCE = 60.0
LONGEST_COMMAND = 150.0
APIS = tuple(f"http://127.0.0.1:{8091 + node}" for node in range(5))
_SERVERS = ("gossamer start", "gossamer up", ".venv/bin/gossamer up", "./script/up")
_LISTENERS = ("mosquitto_sub", "gossamer trace", "gossamer audit stream")
# The shell of one command hands its variables, directory and exit code on to the next one.
_KEEP = (
    'trap \'code=$?; {{ export -p; printf "cd %q\\n(exit %s)\\n" "$PWD" $code; }} > {state}\' EXIT\n'
    "[ ! -e {state} ] || . {state}\n"
)


class UntrueError(AssertionError):
    """A page says something that is not so."""

    def __init__(self, where: str, command: str, why: str) -> None:
        super().__init__(f"{where}: $ {command}\n{why}")


class Program:
    """One that keeps running: what it prints as its output, and what it logs, which nobody compares."""

    def __init__(
        self, typed: Typed, where: str, process: subprocess.Popen[bytes], out: Path, err: Path
    ) -> None:
        self.typed = typed
        self.where = where
        self.process = process
        self._out, self._err = out, err

    @property
    def is_right(self) -> bool:
        return is_like(self._out.read_text(), self.typed.expected)

    def check(self) -> None:
        """Fail unless it printed what the page says."""
        _until(lambda: self.is_right or self.process.poll() is not None)
        if not self.is_right:
            log = "".join(self._err.read_text().splitlines(keepends=True)[-20:])
            why = difference(self._out.read_text(), self.typed.expected) + (
                f"\nits log:\n{log}" if log else ""
            )
            raise UntrueError(self.where, self.typed.command, why)

    def end(self) -> None:
        """As with Ctrl-C; what does not end by that is ended with all that it started, and
        subprocess.TimeoutExpired raised."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            _kill(self.process.pid)
            self.process.wait()
            raise


class Shell:
    """Types the commands of one page in ``directory``; ``aside`` holds what the page must not see."""

    def __init__(self, directory: Path, aside: Path) -> None:
        self._directory = directory
        self._aside = aside
        self._keep = _KEEP.format(state=shlex.quote(str(aside / "state")))
        self._running: list[Program] = []
        self._number = 0
        # The commands of this environment come first, as where it was activated.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environ = {**os.environ, "PATH": path, "COLUMNS": "160", "NO_COLOR": "1"}

    def type(self, typed: Typed, page: Path, *, again: bool = False) -> None:
        """Type it, ``again`` and again if need be, and compare what comes.

        Raises:
            UntrueError: something else came.
        """
        where = f"{page}:{typed.line}"
        if typed.command == "^C":
            self._running.pop().end()
        elif _keeps_running(typed.command):
            self._begin(typed, where)
        else:
            code, out = self.run(typed.command)
            deadline = time.monotonic() + (2 * PATIENCE if again else 0)
            while not is_like(out, typed.expected) and time.monotonic() < deadline:
                time.sleep(1.0)
                code, out = self.run(typed.command)
            if not is_like(out, typed.expected):
                raise UntrueError(
                    where, typed.command, difference(out, typed.expected) + f"\nexit code {code}"
                )

    def run(self, script: str) -> tuple[int, str]:
        """Exit code and output."""
        self._number += 1
        log = self._aside / f"{self._number}.out"
        # Into a file: what it leaves behind may hold a pipe open. A session, to end it with all it started.
        with (
            log.open("w") as out,
            subprocess.Popen(
                ["bash", "-c", self._keep + script],
                cwd=self._directory,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                process.wait(LONGEST_COMMAND)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return 1, f"{log.read_text()}(it was ended after {LONGEST_COMMAND:g} s)\n"
        return process.returncode, log.read_text()

    def check(self) -> None:
        """What keeps running printed what the page says."""
        for program in self._running:
            program.check()

    def close(self) -> None:
        """End everything, the latest first, also behind one that does not end."""
        with contextlib.ExitStack() as stack:
            for program in self._running:
                stack.callback(program.end)
            self._running = []

    def _begin(self, typed: Typed, where: str) -> None:
        self._number += 1
        out, err = self._aside / f"{self._number}.out", self._aside / f"{self._number}.err"
        command = typed.command.removesuffix("&")
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                # The trap would be lost by exec, and nothing of this shell is for the next one.
                ["bash", "-c", f"{self._keep}trap - EXIT\n{_with_exec(command)}"],
                cwd=self._directory,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
        program = Program(typed, where, process, out, err)
        self._running.append(program)
        if _bare(command).startswith("mosquitto_sub"):
            _until(lambda: process.poll() is not None or _is_routed(_filters_of(command)))
        elif not _bare(command).startswith(_LISTENERS):
            program.check()


def _kill(pid: int) -> None:
    """End a process and what it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    started = children.read_text().split() if children.exists() else []
    os.kill(pid, signal.SIGKILL)
    for child in started:
        _kill(int(child))


def _bare(command: str) -> str:
    """Without the variables that are set for it."""
    return re.sub(r"^(?:\w+=\S*\s+(?:\\\n\s*)?)+", "", command)


def _with_exec(command: str) -> str:
    """The program in place of its shell, so that Ctrl-C reaches it."""
    bare = _bare(command)
    return f"{command.removesuffix(bare)}exec {bare}"


def _keeps_running(command: str) -> bool:
    bare = _bare(command)
    if bare.endswith("&"):
        return True
    if bare.startswith(_LISTENERS):
        return not {"-W", "-C", "--limit", "--seconds"} & set(shlex.split(bare))
    return bare.startswith(_SERVERS) and "--help" not in bare


def _filters_of(command: str) -> set[str]:
    words = shlex.split(command)
    named = {words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-t", "--topic")}
    return {name.split("/", 2)[2] if name.startswith("$share/") else name for name in named}


def _is_routed(filters: set[str]) -> bool:
    """Every node that answers sends on what these filters want."""
    seen = False
    for api in APIS:
        try:
            with urllib.request.urlopen(f"{api}/api/v1/topics", timeout=5) as answer:
                known = {item["filter"] for item in json.load(answer)["items"]}
        except OSError:
            continue
        seen = True
        if not filters <= known:
            return False
    return seen


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
