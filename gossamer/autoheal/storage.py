"""Where a healer's state outlives it: one small file, replaced whole.

Rules: 1. What was saved is read back or is refused; half a file is never believed. A damaged one is moved
aside, said, and the healer begins with nothing: the cluster reports what is open anyway.  2. Writing blocks
no loop.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

import msgspec
import structlog
from msgspec import Struct

from gossamer.autoheal.autoclean import Downtime
from gossamer.autoheal.machine import State
from gossamer.autoheal.requests import Settings

__all__ = ["FileStorage", "MemoryStorage", "Saved", "Storage"]

log = structlog.get_logger(__name__)


class Saved(Struct, frozen=True):
    """All that one node keeps."""

    healing: State = State()
    downtime: Downtime = Downtime()
    settings: Settings | None = None
    """What an operator set; None where nobody did."""


class Storage(Protocol):
    """Keeps one value."""

    async def load(self) -> Saved:
        """What was saved last, or the empty value."""

    async def save(self, saved: Saved) -> None:
        """Keep this; back once it would survive a crash."""


class MemoryStorage:
    """Outlives the process, not the node; for nodes without a data directory."""

    def __init__(self) -> None:
        self.saved = Saved()

    async def load(self) -> Saved:
        return self.saved

    async def save(self, saved: Saved) -> None:
        self.saved = saved


class FileStorage:
    """A JSON file, which a person can read too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def load(self) -> Saved:
        return await asyncio.get_running_loop().run_in_executor(None, self._load)

    async def save(self, saved: Saved) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._save, msgspec.json.encode(saved))
        except OSError as error:
            # A full disc must not stop a heal; only its memory suffers.
            log.error("heal_state_not_saved", path=str(self.path), error=str(error))

    def _load(self) -> Saved:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Saved)
        except FileNotFoundError:
            return Saved()
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            aside = self.path.with_suffix(".damaged")
            log.error("heal_state_damaged", path=str(self.path), moved_to=str(aside), error=str(error))
            try:
                self.path.replace(aside)
            except OSError as problem:
                log.error("heal_state_stays", path=str(self.path), error=str(problem))
            return Saved()

    def _save(self, content: bytes) -> None:
        draft = self.path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
