"""Janitor: a process of its own that cleans up after a drill, however it ends.

The drill registers each undo command before the action. When the drill closes the pipe, or dies, the janitor
runs all commands, the latest first, and ends. So there is one way to clean up, and every drill uses it.

Rules: 1. It leads a session of its own, so that Ctrl-C does not reach it.  2. It is a shell script, so it is
cheap.  3. A command that fails is retried for five seconds, since nodes that are dying may still write or use
a namespace; then it is reported on standard error, and the rest is still run.
"""

from __future__ import annotations

import shlex
import subprocess

CLOSE_TIMEOUT = 30.0
"""Seconds after which the drill ends without waiting for the cleanup; the janitor continues."""

_SCRIPT = """\
while IFS= read -r duty; do
    duties="$duty
$duties"
done
printf %s "$duties" | while IFS= read -r duty; do
    for attempt in $(seq 25); do
        said=$(sh -c "$duty" </dev/null 2>&1) && continue 2
        sleep 0.2
    done
    echo "janitor: $duty: $said" >&2
done
"""


class Janitor:
    """Handle of the janitor process: create it first, :meth:`close` it last."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(  # noqa: S603
            ["sh", "-c", _SCRIPT],  # noqa: S607 - any shell will do
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def run(self, *argv: str) -> None:
        """Register a command for the cleanup."""
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("the janitor has been closed")
        self._process.stdin.write(f"{shlex.join(argv)}\n".encode())

    def close(self) -> None:
        """Run the cleanup now, and wait for it. May be called again."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            # It continues by itself after we have ended.
            return
