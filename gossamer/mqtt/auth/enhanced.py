"""Enhanced authentication (MQTT 5.0, 4.12): the seam for methods.

A :class:`Method` begins an :class:`Exchange` for a client that names it in CONNECT. Each of the client's
messages is one step; its outcome is a :class:`Challenge`, which goes out as AUTH 0x18, or :class:`Done`, with
a verdict. A step may take its time: it may return an awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

import msgspec

from gossamer.mqtt.auth.sources import Login, Verdict

__all__ = ["Challenge", "Done", "Exchange", "Method", "Step"]


class Challenge(msgspec.Struct, frozen=True):
    """The client is to answer ``data``."""

    data: bytes | None = None


class Done(msgspec.Struct, frozen=True):
    """It is decided; ``data`` goes with the good news."""

    verdict: Verdict
    data: bytes | None = None


Step: TypeAlias = Challenge | Done


class Exchange(Protocol):
    """One client's authentication, which ends with :class:`Done`."""

    def step(self, data: bytes | None) -> Step | Awaitable[Step]:
        """Take the authentication data of the client's CONNECT or AUTH."""


class Method(Protocol):
    """A way to authenticate; ``name`` is what clients call it."""

    @property
    def name(self) -> str: ...
    def begin(self, login: Login) -> Exchange: ...
