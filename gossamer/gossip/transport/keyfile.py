"""Where a keyring outlives its node: one small file in the data directory, readable by its owner only.

Rules: 1. There is no file until somebody changes the keys; till then the key is the one that belongs to the
cookie. From then on the file alone says which keys there are, so that a removed key does not come back with
the cookie.  2. A change is on disc before it takes effect: a node that dies in the middle of a rotation comes
back with all that it has said it has.  3. The file is replaced whole. One that is damaged, or open to others,
ends the start: a node with the wrong keys would only be cut off without a word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from gossamer.errors import TransportError
from gossamer.files import replace_file

_VERSION = 1
_LARGEST = 64 * 1024


class KeyFileError(TransportError):
    """The keys of gossip cannot be read, or not be kept. Never shows what is in the file."""

    def __init__(self, *, path: Path, problem: str, advice: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"gossip keys {path}: {problem}; {advice}")


class KeyFile:
    """Blocks: call it in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[bytes]:
        """The keys, the one in use first; none where keys were never changed.

        Raises:
            KeyFileError: the file is damaged, unreadable, or readable by others.
        """
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                text = file.read(_LARGEST)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(f"cannot be read ({error.strerror or error})") from error
        if mode & 0o077:
            raise self._unusable(f"got a file with mode {mode:04o}, expected one for its owner only (0600)")
        try:
            kept = json.loads(text)
            keys = [bytes.fromhex(key) for key in kept["keys"]]
        except (ValueError, KeyError, TypeError):
            # Without the cause: its message would show the text.
            raise self._unusable("the file is damaged") from None
        if kept.get("version") != _VERSION or not keys:
            raise self._unusable(f"expected version {_VERSION} with at least one key")
        return keys

    def save(self, keys: Sequence[bytes]) -> None:
        """Keep these; back once they would survive a crash.

        Raises:
            KeyFileError: they cannot be kept; what was kept before is still there.
        """
        content = json.dumps({"version": _VERSION, "keys": [key.hex() for key in keys]}).encode()
        try:
            replace_file(self.path, content)
        except OSError as error:
            raise KeyFileError(
                path=self.path,
                problem=f"cannot be written ({error.strerror or error})",
                advice="the keys of this node are as they were; make room in its data directory, try again",
            ) from error

    def _unusable(self, problem: str) -> KeyFileError:
        advice = "put it right, or remove it to begin with the key that belongs to node.cookie"
        return KeyFileError(path=self.path, problem=problem, advice=advice)
