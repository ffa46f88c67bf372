"""A program on a terminal of its own: typed to, and read until something has come."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from contextlib import suppress

PATIENCE = 20.0
_CONTROL = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|[=>]|\].*?\x07)")


class Terminal:
    """``argv`` runs in it until it is closed; ``raw`` keeps what moves the cursor and colours."""

    def __init__(self, argv, *, directory=".", environment=None, size=(24, 80), raw=False):
        environment = {**os.environ, "TERM": "xterm-256color"} if environment is None else environment
        # It says how large it is itself.
        environment = {name: what for name, what in environment.items() if name not in ("COLUMNS", "LINES")}
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.chdir(directory)
            os.execve(argv[0], argv, environment)
        self.text = ""
        self._raw = raw
        self.code = None
        self.resize(*size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def resize(self, rows, columns):
        """As when somebody draws a window larger."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        """As from a keyboard."""
        os.write(self.fd, text.encode())

    def see(self, wanted):
        """Read until ``wanted`` (a pattern) has come; all that came since the last time."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(wanted, self.text)):
            assert self._read(end), f"{wanted!r} did not come; the terminal shows {self.text[-4000:]!r}"
        seen, self.text = self.text[: found.end()], self.text[found.end() :]
        return seen

    def ended(self):
        """The exit code, once it is there."""
        end = time.monotonic() + PATIENCE
        while self._read(end):
            pass
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        return self.code

    def close(self):
        """The terminal is gone, and with it what ran there."""
        os.close(self.fd)
        if self.code is None:
            with suppress(ChildProcessError):
                os.waitpid(self.child, 0)

    def _read(self, end):
        ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            came = os.read(self.fd, 65536)
        except OSError:
            # Nobody has it open any more.
            return False
        text = came.decode(errors="replace")
        self.text += text if self._raw else _CONTROL.sub("", text)
        return bool(came)
