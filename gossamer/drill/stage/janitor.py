"""Cleans up after a drill, however it ends: a process of its own that waits until the drill is gone.

The drill tells it what is to be undone before it does it. When the drill closes the pipe, or dies, the
janitor undoes all of that, the latest first, and ends. So there is one way to clean up, and every drill takes
it.

Rules: 1. It leads a session of its own, so that Ctrl-C does not reach it.  2. It is a script of the shell,
so it costs nothing to have one.  3. What fails is tried again for five seconds, since nodes that die at this
moment may still write or hold on to a namespace; then it is reported on standard error, and the rest is
undone all the same.
"""

from __future__ import annotations

import shlex
import subprocess

CLOSE_TIMEOUT = 30.0
"""Seconds that cleaning up may take before the drill ends without it; the janitor goes on."""

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
    """Make it first, :meth:`close` it last."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(  # noqa: S603
            ["sh", "-c", _SCRIPT],  # noqa: S607 - any shell will do
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def run(self, *argv: str) -> None:
        """In the end, run this command."""
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("the janitor has been closed")
        self._process.stdin.write(f"{shlex.join(argv)}\n".encode())

    def close(self) -> None:
        """Have everything undone now, and wait for it. May be called again."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            # It goes on by itself, and is nobody's child once we are gone.
            return
