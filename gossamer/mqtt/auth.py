"""Who may connect: the seam, and the two answers that need nothing else.

An :class:`Authenticator` answers at once or, where it must think (argon2 takes tens of milliseconds on
purpose), with an awaitable; then the channel reads nothing until the answer is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from concurrent.futures import Executor
from typing import Protocol

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from gossamer.mqtt.reasons import ReasonCode

__all__ = ["Authenticator", "NobodyElse", "PasswordFile"]


class Authenticator(Protocol):
    """Decides whether a client may connect: ``ReasonCode.SUCCESS``, or why not."""

    def authenticate(
        self, client_id: str, username: str | None, password: bytes | None
    ) -> ReasonCode | Awaitable[ReasonCode]: ...


class NobodyElse:
    """No user is known: anonymous clients come in where they are allowed, others do not."""

    def __init__(self, *, allow_anonymous: bool = False) -> None:
        self._allow = allow_anonymous

    def authenticate(self, client_id: str, username: str | None, password: bytes | None) -> ReasonCode:
        if username is None:
            return ReasonCode.SUCCESS if self._allow else ReasonCode.NOT_AUTHORIZED
        # With anonymous access a name proves nothing and harms nothing, and many clients send one.
        return ReasonCode.SUCCESS if self._allow else ReasonCode.BAD_USER_NAME_OR_PASSWORD


class PasswordFile:
    """User names with argon2 hashes; verified in ``executor``: that is slow by design."""

    def __init__(
        self, hashes: Mapping[str, str], *, executor: Executor | None = None, allow_anonymous: bool = False
    ) -> None:
        self._hashes = dict(hashes)
        self._executor = executor
        self._allow = allow_anonymous
        self._hasher = PasswordHasher()
        # Unknown names must take as long as known ones.
        self._nobody = self._hasher.hash("nobody")

    def authenticate(
        self, client_id: str, username: str | None, password: bytes | None
    ) -> ReasonCode | Awaitable[ReasonCode]:
        if username is None:
            return ReasonCode.SUCCESS if self._allow else ReasonCode.NOT_AUTHORIZED
        known = self._hashes.get(username)
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._executor, self._verify, known, password or b"")

    def _verify(self, known: str | None, password: bytes) -> ReasonCode:
        try:
            self._hasher.verify(known or self._nobody, password)
        except (VerificationError, InvalidHashError):
            return ReasonCode.BAD_USER_NAME_OR_PASSWORD
        return ReasonCode.SUCCESS if known else ReasonCode.BAD_USER_NAME_OR_PASSWORD
