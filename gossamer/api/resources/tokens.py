"""Tokens over HTTP: list them, make one, take one back; and who the caller is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from msgspec import structs
from pydantic import Field

from gossamer.api.http.access import needs, principal_of
from gossamer.api.http.tokens import Role, Token, Tokens
from gossamer.api.model.base import Value
from gossamer.api.model.forms import ROW_ID, TOKEN_NAME
from gossamer.config import PositiveDuration

TokenId = Annotated[str, Path(pattern=ROW_ID, description="`id` of a token.")]


class TokenInfo(Value):
    """A token as the cluster knows it; its secret is not kept."""

    id: str
    name: str
    role: Role
    created_at: float
    expires_at: float
    """0: never."""
    created_by: str
    expired: bool


class NewToken(TokenInfo):
    """A token that was just made."""

    token: str
    """The only time that it is shown."""


class TokenRequest(Value):
    """The token to make."""

    name: Annotated[str, Field(pattern=TOKEN_NAME)]
    """The holder of the token; appears in the log of requests."""
    role: Role = Role.VIEWER
    expires: PositiveDuration | None = 90 * 86_400.0
    """How long it is valid; null: without end."""


class WhoAmI(Value):
    """The caller, as this node identifies it."""

    name: str
    role: Role
    node: str


def tokens_router(tokens: Tokens, *, node: str) -> APIRouter:
    """``/tokens``, for administrators, and ``/whoami``."""
    router = APIRouter(tags=["access"])
    admin = [needs(Role.ADMIN)]

    def info(token: Token) -> dict[str, object]:
        known = {**structs.asdict(token), "expired": tokens.expired(token)}
        del known["digest"]
        return known

    @router.get("/whoami")
    async def whoami(request: Request) -> WhoAmI:
        """Return the name and the role of the caller."""
        principal = principal_of(request)
        return WhoAmI(name=principal.name, role=principal.role, node=node)

    @router.get("/tokens", dependencies=admin)
    async def listed() -> tuple[TokenInfo, ...]:
        """All tokens, the newest first."""
        found = sorted(tokens, key=lambda token: -token.created_at)
        return tuple(TokenInfo.model_validate(info(token)) for token in found)

    @router.post("/tokens", dependencies=admin, status_code=201)
    async def create(order: TokenRequest, request: Request) -> NewToken:
        """Make a token; the answer is the only place where it ever stands."""
        by = principal_of(request).name
        text, token = tokens.create(name=order.name, role=order.role, lifetime=order.expires, by=by)
        return NewToken.model_validate({**info(token), "token": text})

    @router.delete("/tokens/{id}", dependencies=admin)
    async def revoke(id: TokenId) -> TokenInfo:  # noqa: A002
        """Take a token back, on every node."""
        return TokenInfo.model_validate(info(tokens.revoke(id)))

    return router
