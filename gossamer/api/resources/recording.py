"""The flow recorder over HTTP: what it did, and how it is set, for one node."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import APIRouter
from pydantic import Field

from gossamer.api.http.access import needs
from gossamer.api.http.tokens import Role
from gossamer.api.model import Flag, Value
from gossamer.api.resources.durations import OptionalSeconds, PositiveSeconds

__all__ = ["RecordingInfo", "RecordingSettings", "RecordingView", "recording_router"]


class RecordingInfo(Value):
    """What the recorder of this node did in this life of the node."""

    node: str
    enabled: bool
    recording: bool
    """False although it is enabled: its processes could not be kept alive; the log says why."""
    sample: float
    """Share of the messages that are recorded."""
    dir: str
    messages: int
    """Messages of its publishers that this node recorded."""
    recorded: int
    """Events."""
    dropped: int
    """Events for which there was no room, since the disc did not take them."""
    gaps: int
    """How often that was so."""
    buffered: int
    """Rows that wait in memory."""
    buffer: int
    """Rows that may."""
    files: int
    """Finished files of this node that are there now."""
    bytes: int
    oldest: float | None
    """When the oldest of them was finished; wall-clock seconds."""
    clock_offset: float | None
    """Seconds by which this node's clock is ahead of the others'; null: not measured."""


class RecordingSettings(Value):
    """What to change, until the node is started anew; what is left out stays as it is."""

    enable: Flag | None = None
    sample: Annotated[float, Field(ge=0.0, le=1.0, strict=True)] | None = None
    rotate_after: PositiveSeconds | None = None
    keep_for: OptionalSeconds = None
    """Off, or null: files are kept however old they are."""
    keep_size: Annotated[int, Field(ge=0, strict=True)] | None = None
    """Bytes; 0: no bound."""
    buffer: Annotated[int, Field(ge=1000, le=10_000_000, strict=True)] | None = None


class RecordingView(Protocol):
    """What may be asked of a recorder, and ordered."""

    async def status(self) -> RecordingInfo:
        """What it did."""

    async def configure(self, settings: RecordingSettings) -> RecordingInfo:
        """Change what ``settings`` names."""


def recording_router(view: RecordingView) -> APIRouter:
    """``/audit``."""
    router = APIRouter(tags=["audit"])

    @router.get("/audit")
    async def status() -> RecordingInfo:
        """What the flow recorder of this node did: events, drops, files."""
        return await view.status()

    @router.post("/audit", dependencies=[needs(Role.ADMIN)])
    async def configure(settings: RecordingSettings) -> RecordingInfo:
        """Switch the flow recorder of this node on or off, or set it, until the node is started anew."""
        return await view.configure(settings)

    return router
