"""A node as a process of its own, by the command or forked from a program that has everything loaded.

The command is what an operator has, but three quarters of its first seconds of processor time go into
loading modules, thrice for a cluster and again for each restart: ``warm`` forks from a server that has loaded
them and goes on where the command would, with the same arguments. Signals and namespaces are the same.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gossamer.drill.stage.netns import enter

GOSSAMER = (sys.executable, "-m", "gossamer.cli")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
"""Loaded here, since nothing may be loaded between fork and exec."""
_PRELOADED = [
    *("gossamer.cli.local.start", "gossamer.cli.local.logs", "gossamer.cli.local.log_fields"),
    *("gossamer.config.load", "gossamer.node", "grpc._utilities", "typer._adapters"),
    *("uvicorn.lifespan.off", "uvloop", "__main__"),
]


class Process(Protocol):
    """What :class:`subprocess.Popen` says of a process that leads a group."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def send_signal(self, number: int) -> None: ...


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that made it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(
    arguments: Sequence[str], out: Path, *, space: str = "", warm: bool = False, tree: Path | None = None
) -> Process:
    """Run ``gossamer ARGUMENTS…`` in a namespace; it writes to ``out`` with .out and .err for a suffix.

    ``tree``: sources of another release, which are run instead of these.
    """
    if warm and tree is None:
        return _Forked(arguments, out, space)
    prefix = ["ip", "netns", "exec", space] if space else []
    if tree is not None:
        # Without -P the working directory, where these sources may be, would come first.
        prefix += ["env", "PYTHONSAFEPATH=1", f"PYTHONPATH={tree}"]
    with open(f"{out}.out", "ab") as output, open(f"{out}.err", "ab") as errors:  # noqa: PTH123
        return subprocess.Popen(
            [*prefix, *GOSSAMER, *arguments],
            stdout=output,
            stderr=errors,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def signal_group(process: Process, number: int) -> None:
    """Signal all of its group, or itself while it does not lead one yet; nothing where it is gone."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        process.send_signal(number)


class _Forked:
    def __init__(self, arguments: Sequence[str], out: Path, space: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self._process = context.Process(target=_begin, args=(list(arguments), str(out), space))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join()
        return self._process.exitcode or 0

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _begin(arguments: list[str], out: str, space: str) -> None:
    die_with_parent()
    os.setsid()
    for number, suffix in ((1, "out"), (2, "err")):
        file = os.open(f"{out}.{suffix}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(file, number)
        os.close(file)
    if space:
        enter(space)
    sys.argv = ["gossamer", *arguments]
    from gossamer.cli import main

    main()
