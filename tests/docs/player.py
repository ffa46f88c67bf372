"""Play one page: what it shows is typed, written and run, in order, in a directory of its own.

``python -m docs.player PAGE DIRECTORY [apart]`` ends with 1 and says page, line, what was expected and what
came. A process of its own, since a page has the default ports: where the system lets it, in a network of its
own, undisturbed by whatever else listens on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import inspect
import io
import os
import signal
import socket
import struct
import subprocess
import sys
import traceback
import types
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from pathlib import Path

from docs.blocks import SHELLS, Block, Typed, blocks_of, cluster_of, typed_in
from docs.likeness import difference, is_like
from docs.terminal import Shell, UntrueError

ROOT = Path(__file__).parents[2]
LONGEST = 420.0


class Namespace:
    """The Python of a page: one namespace, one loop for what awaits."""

    def __init__(self) -> None:
        self._names: dict[str, object] = {"__name__": "__page__"}
        self._runner = asyncio.Runner()

    def run(self, block: Block) -> str:
        """What it prints."""
        out = io.StringIO()
        # As many lines above it as in the page, so that a traceback names the page's own.
        source = "\n" * block.line + block.text
        code = compile(source, str(block.page), "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(out):
            made = types.FunctionType(code, self._names)()
            if inspect.iscoroutine(made):
                self._runner.run(made)
        return out.getvalue()

    def close(self) -> None:
        self._runner.close()


def play(text: str, page: Path, directory: Path) -> None:
    """Raises UntrueError where the page is wrong; ``directory`` is empty before and is the page's."""
    here, aside = directory / "here", directory / "aside"
    here.mkdir()
    aside.mkdir()
    for name in ("script", ".venv", "deploy", "examples"):
        (here / name).symlink_to(ROOT / name)
    shell, namespace, printed = Shell(here, aside), Namespace(), ""
    os.chdir(here)
    sys.path.insert(0, str(here))
    try:
        options = cluster_of(text)
        if options is not None:
            shell.type(Typed(f"gossamer up {options}", "ready …\n", 1), page)
        for block in blocks_of(text, page):
            if block.output:
                if not is_like(printed, block.text):
                    raise UntrueError(block.where, "(the block above)", difference(printed, block.text))
            elif block.file and not block.not_run:
                (here / block.file).parent.mkdir(parents=True, exist_ok=True)
                (here / block.file).write_text(block.text)
            elif block.runs:
                printed = _run(block, shell, namespace)
        shell.check()
    finally:
        try:
            namespace.close()
        finally:
            shell.close()


def _run(block: Block, shell: Shell, namespace: Namespace) -> str:
    if block.language == "console":
        for typed in typed_in(block):
            shell.type(typed, block.page, again=bool(block.later))
        return ""
    if block.language in SHELLS:
        code, out = shell.run(f"set -e\n{block.text}")
        if code:
            raise UntrueError(block.where, block.text.rstrip(), f"exit code {code}\n{out}")
        return out
    try:
        return namespace.run(block)
    except Exception:  # noqa: BLE001 - whatever the page's code raises is what is wrong with it
        raise UntrueError(block.where, "python", traceback.format_exc()) from None


def play_apart(page: Path, directory: Path) -> str:
    """Play the page in a process of its own; what is wrong with it, empty if nothing is."""
    apart = own_network()
    command = [
        *apart,
        sys.executable,
        "-m",
        "docs.player",
        str(page),
        str(directory),
        *["apart"] * bool(apart),
    ]
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out = f"{page}: not through after {LONGEST:g} s"
    return out if process.returncode else ""


def own_network() -> list[str]:
    """The words before a command that give it a network of its own; none where the system does not let it."""
    for command in (["unshare", "--net"], ["unshare", "--net", "--user", "--map-root-user"]):
        try:
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            break
    return []


def _loopback_up() -> None:
    """A new network begins with its loopback interface down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        up_and_running = 0x1 | 0x40
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", up_and_running))


def main() -> int:
    page, directory = Path(sys.argv[1]), Path(sys.argv[2])
    if "apart" in sys.argv[3:]:
        _loopback_up()
    # A shell in the background has it ignored, and so would be what a page ends by Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        shown = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
        play(page.read_text(encoding="utf-8"), shown, directory)
    except UntrueError as untrue:
        sys.stderr.write(f"{untrue}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
