"""Tokens that let a person or a script into the API, and the roles that they carry.

A token is ``gsm_ID_SECRET``. The cluster keeps one row a token in the shared table ``api_tokens``: name,
role, times, and a SHA-256 of the secret. The secret is 256 random bits: there is nothing to guess,
and a slow hash would only help who floods the API with bad ones.

Rules: 1. A secret is shown once, when it is made, and kept nowhere.  2. A row that cannot be read lets nobody
in.  3. Every node knows every token; what is revoked on one side of a split is revoked on the other once it
heals.  Rejected: signed tokens without a row (nobody could say which ones are out, nor take one back).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator
from enum import StrEnum

import msgspec

from gossamer.errors import UnavailableError, UsageError
from gossamer.mnesia_like import SharedTable

TOKENS = "api_tokens"
"""The table's name."""
LONGEST_LIFE = 10 * 365 * 86_400.0
_SHAPE = re.compile(r"gsm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class Role(StrEnum):
    """A role; each one includes those before it."""

    VIEWER = "viewer"
    """Look."""
    OPERATOR = "operator"
    """Run the cluster: join, leave, drain, kick, publish, heal."""
    ADMIN = "admin"
    """Change who may do what: tokens, gossip keys, configuration, faults; and see what others send."""

    def includes(self, other: Role) -> bool:
        """Return whether this role includes ``other``."""
        return _RANK[self] >= _RANK[other]


_RANK = {role: rank for rank, role in enumerate(Role)}


LOOPBACK, ANONYMOUS, NODE = "loopback", "anonymous", "node"
"""Names of callers without a token: on this machine, on others, and a node that asks for itself."""


class Principal(msgspec.Struct, frozen=True):
    """An authenticated caller; ``token`` is the id of its token, empty for one without."""

    name: str
    role: Role
    address: str = ""
    token: str = ""

    def demand(self, role: Role) -> None:
        """Raise RoleTooLowError unless they may do what ``role`` may."""
        if not self.role.includes(role):
            raise RoleTooLowError(f"this takes the role {role}; {self.name} is {self.role}")


class RoleTooLowError(UsageError):
    """The caller's role is too low."""


class BadTokenError(UsageError):
    """A token is invalid; ``reason`` says why without revealing a valid one."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(f"token: {reason}; make one with `gossamer tokens create` on a node")


class Token(msgspec.Struct, frozen=True):
    """A token as the cluster stores it. Times are seconds since 1970; ``expires_at`` 0: never."""

    id: str
    name: str
    role: Role
    created_at: float
    expires_at: float
    created_by: str
    digest: str

    def expired(self, now: float) -> bool:
        """Return whether it has expired at ``now``."""
        return 0 < self.expires_at <= now


class Tokens:
    """The tokens of the cluster, over the table that :meth:`attach` gives; before that there are none."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._now = now
        self._random = random_bytes
        self._table: SharedTable | None = None

    def attach(self, table: SharedTable) -> None:
        """Keep the tokens in ``table`` from now on."""
        self._table = table

    def create(self, *, name: str, role: Role, lifetime: float | None, by: str) -> tuple[str, Token]:
        """Create a token; return its text, which is not stored, and its record.

        Raises:
            UnavailableError: the table takes no rows now.
        """
        now = self._now()
        secret = _text(self._random(32))
        token = Token(
            id=self._random(6).hex(),
            name=name,
            role=role,
            created_at=now,
            expires_at=0.0 if lifetime is None else now + min(lifetime, LONGEST_LIFE),
            created_by=by,
            digest=_digest(secret),
        )
        self._writable().write(token.id, msgspec.to_builtins(token))
        return f"gsm_{token.id}_{secret}", token

    def check(self, text: str) -> Token:
        """Return the token of ``text``.

        Raises:
            BadTokenError: it is unknown, or has expired.
        """
        shape = _SHAPE.fullmatch(text)
        if shape is None:
            raise BadTokenError(reason=f"got {len(text)} characters that are no token, expected gsm_…")
        token = self._read(shape[1])
        if token is not None and not hmac.compare_digest(token.digest, _digest(shape[2])):
            token = None
        return self._valid(token)

    def relayed(self, id: str) -> Token:  # noqa: A002
        """Return the token ``id`` that another node checked, as this node's own table has it.

        Raises:
            BadTokenError: it is unknown here, or has expired.
        """
        return self._valid(self._read(id))

    def _valid(self, token: Token | None) -> Token:
        if token is None:
            raise BadTokenError(reason="unknown or revoked")
        if token.expired(self._now()):
            raise BadTokenError(reason=f"{token.name} has expired")
        return token

    def revoke(self, id: str) -> Token:  # noqa: A002
        """Take a token back.

        Raises:
            UsageError: there is none with this id.
        """
        token = self._read(id)
        if token is None:
            raise UsageError(f"token: got the id {id[:40]!r}, expected one of `gossamer tokens list`")
        self._writable().delete(id)
        return token

    def expired(self, token: Token) -> bool:
        """Return whether ``token`` has expired."""
        return token.expired(self._now())

    def __iter__(self) -> Iterator[Token]:
        if self._table is not None:
            for id in list(self._table.rows()):  # noqa: A001
                token = self._read(id)
                if token is not None:
                    yield token

    def _read(self, id: str) -> Token | None:  # noqa: A002
        row = None if self._table is None else self._table.read(id)
        try:
            return None if row is None else msgspec.convert(row, Token)
        except msgspec.ValidationError:
            return None

    def _writable(self) -> SharedTable:
        if self._table is None:
            raise UnavailableError("tokens: this node has no table for them yet; wait until it is ready")
        return self._table


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
