"""The flow recorder of a node, for the API."""

from __future__ import annotations

import asyncio

from gossamer.api.model.node import RecordingInfo, RecordingSettings
from gossamer.node.parts import NodeParts

__all__ = ["Recording"]


class Recording:
    """Implements :class:`gossamer.api.RecordingView`."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node

    async def status(self) -> RecordingInfo:
        """What it did."""
        # It lists directories.
        found = await asyncio.to_thread(self._node.auditor.status)
        return RecordingInfo(node=self._node.name, **found)

    async def configure(self, settings: RecordingSettings) -> RecordingInfo:
        """Change what ``settings`` names."""
        auditor = self._node.auditor
        wanted = {name: getattr(settings, name) for name in settings.model_fields_set}
        await auditor.change(auditor.config.model_copy(update=wanted))
        return await self.status()
