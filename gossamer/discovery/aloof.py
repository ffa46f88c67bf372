"""Whether this node was told to leave, remembered beyond its life.

A node that left on its operator's word stays out until it is told to join: discovery would otherwise bring it
back at the next restart. The word is a file in the data directory; without one it holds for this life.

Stopping a node is not leaving in this sense: it leaves its cluster in order, and joins again when it starts.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from gossamer.errors import TransportError

__all__ = ["Aloof", "AloofFileError"]

_FILE = "left"


class AloofFileError(TransportError):
    """The word cannot be kept."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: {problem}, so that this node would not remember at its next start whether it has left; "
            "see that it can write there, and give the order again"
        )


class Aloof:
    """``directory`` None keeps nothing on disc. Opening blocks, for one look."""

    def __init__(self, directory: Path | None = None) -> None:
        self._path = None if directory is None else directory / _FILE
        self.on = self._path is not None and self._path.exists()
        """True from a leave to the next join."""

    async def set(self, on: bool) -> None:
        """Remember.

        Raises:
            AloofFileError: it holds for this life only.
        """
        self.on = on
        if self._path is not None:
            await asyncio.to_thread(_write, self._path, on)


def _write(path: Path, on: bool) -> None:
    try:
        if on:
            path.write_text(
                "This node was told to leave its cluster; gossamer cluster join brings it back.\n"
            )
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise AloofFileError(path, error.strerror or str(error)) from None
