"""Cleans up after a drill, however it ends: a process of its own that waits until the drill is gone.

The drill tells it what is to be undone before it does it. When the drill closes the pipe, or dies, the
janitor undoes all of that, the latest first, and ends. So there is one way to clean up, and every drill takes
it.

Rules: 1. It leads a session of its own, so that Ctrl-C does not reach it.  2. It needs nothing but Python's
standard library, and starts in a few hundredths of a second.  3. What cannot be undone is said on standard
error, and the rest is undone all the same.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CLOSE_TIMEOUT = 30.0
"""Seconds that cleaning up may take before the drill ends without it; the janitor goes on."""

_STUB = """\
import json, os, shutil, subprocess, sys, time

def remove(path):
    # Nodes that die at this moment may still write.
    for _ in range(50):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            return
        time.sleep(0.1)
    print(f"janitor: {path} could not be removed", file=sys.stderr)

def run(argv):
    # A namespace, say, that a process still holds on to.
    for _ in range(10):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0:
            return
        time.sleep(0.2)
    print(f"janitor: {' '.join(argv)}: {done.stderr.strip()}", file=sys.stderr)

duties = []
for line in sys.stdin:
    duties.append(json.loads(line))
for word, what in reversed(duties):
    try:
        (remove if word == "remove" else run)(what)
    except OSError as error:
        print(f"janitor: {what}: {error}", file=sys.stderr)
"""


class Janitor:
    """Make it first, :meth:`close` it last."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-I", "-S", "-c", _STUB],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def remove(self, directory: Path) -> None:
        """In the end, remove a directory and all that is in it."""
        self._tell("remove", str(directory))

    def run(self, argv: Sequence[str]) -> None:
        """In the end, run a command; one that fails is tried again for two seconds."""
        self._tell("run", list(argv))

    async def close(self) -> None:
        """Have everything undone now, and wait for it. May be called again."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            # It is told, goes on by itself, and is nobody's child once we are gone.
            return

    def _tell(self, word: str, what: object) -> None:
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("the janitor has been closed")
        self._process.stdin.write(json.dumps([word, what]).encode() + b"\n")
