"""Persistent state of a healer: one small file, replaced atomically; and operators' settings, in a table.

Rules of the file: 1. Saved state is read back or refused; half a file is never accepted. A damaged one is
moved aside and logged, and the healer starts empty: the cluster reports open splits anyway.  2. Writing does
not block the loop.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from gossamer.autoheal.autoclean import Downtime
from gossamer.autoheal.machine import State
from gossamer.autoheal.values import Setting
from gossamer.files import replace_file
from gossamer.mnesia_like import SharedTable

log = structlog.get_logger(__name__)


class Saved(Struct, frozen=True):
    """Persistent state of one node."""

    healing: State = State()
    downtime: Downtime = Downtime()


class Storage:
    """JSON file, readable for operators; without a ``path``, only memory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._saved = Saved()

    async def load(self) -> Saved:
        """Return what was saved last, or the empty value."""
        if self.path is None:
            return self._saved
        return await asyncio.get_running_loop().run_in_executor(None, self._load, self.path)

    async def save(self, saved: Saved) -> None:
        """Keep this; back once it would survive a crash."""
        self._saved = saved
        if self.path is None:
            return
        content = msgspec.json.encode(saved)
        try:
            await asyncio.get_running_loop().run_in_executor(None, replace_file, self.path, content)
        except OSError as error:
            # A full disc must not stop a heal; only its memory suffers.
            log.error("heal_state_not_saved", path=str(self.path), error=str(error))

    @staticmethod
    def _load(path: Path) -> Saved:
        try:
            return msgspec.json.decode(path.read_bytes(), type=Saved)
        except FileNotFoundError:
            return Saved()
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            aside = path.with_suffix(".damaged")
            log.error("heal_state_damaged", path=str(path), moved_to=str(aside), error=str(error))
            try:
                path.replace(aside)
            except OSError as problem:
                log.error("heal_state_stays", path=str(path), error=str(problem))
            return Saved()


class Settings:
    """Settings of the whole cluster: what an operator set at any node, or else what is configured here.

    A row of ``table`` is a list of one, seconds or None, under ``autoheal`` or ``autoclean``.
    """

    TABLE = "heal_settings"
    """Whatever heals, the latest word of an operator counts in it."""

    def __init__(self, table: SharedTable, *, autoheal: float | None, autoclean: float | None) -> None:
        self._table = table
        self._configured: dict[Setting, float | None] = {"autoheal": autoheal, "autoclean": autoclean}

    @property
    def autoheal(self) -> float | None:
        """Seconds that the leader waits before it heals; None: no heals."""
        return self._get("autoheal")

    @property
    def autoclean(self) -> float | None:
        """Seconds a member may be down; None: for ever."""
        return self._get("autoclean")

    async def set(self, name: Setting, seconds: float | None) -> None:
        """Set for all nodes; back once it is on disc.

        Raises:
            UnavailableError, TimeoutError: it cannot be written now.
        """
        self._table.write(name, [seconds])
        await self._table.durable()

    def _get(self, name: Setting) -> float | None:
        row: list[float | None] = self._table.read(name, [self._configured[name]])
        return row[0]
