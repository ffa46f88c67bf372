"""Access control: tokens, roles, rates, and a log of every command.

Rules: 1. A request with a token has the token's identity, also on this machine.  2. One without has
``api.loopback_role`` on this machine, and ``api.anonymous_role`` elsewhere, none by default.  3. Reading
requires a viewer, anything else an operator; a route that requires more declares it (:func:`needs`). So a
new route is closed by default.  4. Probes and the console's own files require no role: they contain nothing
about the cluster.  5. Each caller has a rate; excess requests are refused before they cost, wrong
tokens much sooner.  6. Every command is one line in the log, without secrets; so is every refusal, up to a
number a minute, with the count of those left out.  7. A caller that another node let in may do no more here
than this node would let it do by its own table of tokens and its own configuration, whatever role the other
node says that it has.  8. An answer in parts ends with the token of whoever asked.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec
import structlog
from fastapi import Depends, Request
from fastapi.params import Depends as Dependency
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gossamer.api.http.answers import refuse
from gossamer.api.http.limits import PROBES, Refusal
from gossamer.api.http.tokens import (
    ANONYMOUS,
    LOOPBACK,
    NODE,
    BadTokenError,
    Principal,
    Role,
    RoleTooLowError,
    Tokens,
)
from gossamer.clock import Clock
from gossamer.config import ApiConfig
from gossamer.log_limit import LogLimit
from gossamer.mqtt import Bucket
from gossamer.places import source_of

log = structlog.get_logger(__name__)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC = frozenset({"/health", "/ready", "/", "/favicon.ico", "/openapi.json", "/docs"})
PUBLIC_BELOW = "/console/"
Kind = Literal["asked", "probe", "stream", "wrong"]
"""Requests counted separately: a caller with many streams may still ask, and probes are always answered."""
_CLOSE = (b"connection", b"close")
# Whoever is refused here keeps no connection, nor the body that it may still send.
_MORE_HEADERS = {
    401: [(b"www-authenticate", b"Bearer"), _CLOSE],
    403: [_CLOSE],
    429: [(b"retry-after", b"1"), _CLOSE],
}
_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"})
CALLERS = 4096
"""Callers whose rates are remembered; the one that was silent longest is forgotten."""
REFUSALS_LOGGED = 100
"""Lines about refusals a minute, of strangers and of others."""
WRONG_TOKENS = 5.0
"""Wrong tokens a second that an address may try."""


def principal_of(request: Request) -> Principal:
    """Return the caller; public routes have none."""
    found: Principal = request.scope["gossamer.principal"]
    return found


@dataclass(frozen=True, slots=True)
class _Needs:
    """Lets a request through whose principal has the role."""

    role: Role

    def __call__(self, request: Request) -> None:
        principal_of(request).demand(self.role)


def needs(role: Role) -> Dependency:
    """A dependency of a route that takes more than its method does."""
    dependency: Dependency = Depends(_Needs(role))
    return dependency


def role_of(dependencies: Iterable[Callable[..., object] | None], *, method: str, path: str) -> str:
    """Return the role that a route requires, from its dependencies; ``nobody`` is a role, too."""
    if is_public(method, path):
        return "nobody"
    roles = [Role.VIEWER if method in SAFE_METHODS else Role.OPERATOR]
    roles += [needed.role for needed in dependencies if isinstance(needed, _Needs)]
    return next(role for role in roles if all(role.includes(other) for other in roles)).value


class Callers:
    """Who asks, by what they bring, and how often: for HTTP and for gRPC, each with counts of its own."""

    def __init__(self, *, tokens: Tokens, config: ApiConfig, clock: Clock) -> None:
        self._tokens = tokens
        self._config = config
        self._clock = clock
        self._rates: OrderedDict[tuple[Kind, str], Bucket] = OrderedDict()

    def who(self, authorization: str | None, address: str, *, loopback: bool) -> Principal | None:
        """Return the caller, None for an anonymous one without a role.

        Raises:
            BadTokenError: what was brought is no good token.
        """
        if authorization is not None:
            scheme, _, text = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise BadTokenError(reason=f"got the scheme {scheme[:20]!r}, expected Bearer")
            token = self._tokens.check(text.strip())
            return Principal(name=token.name, role=token.role, address=address, token=token.id)
        role = self._config.loopback_role if loopback else self._config.anonymous_role
        if role == "none":
            return None
        return Principal(name=LOOPBACK if loopback else ANONYMOUS, role=Role(role), address=address)

    def bounded(self, claimed: Principal) -> Principal | None:
        """Return the caller of another node, with the smaller of the roles that both nodes give it; None for
        one without a role here.

        Raises:
            BadTokenError: its token is unknown here, or has expired.
        """
        config = self._config
        if claimed.token:
            token = self._tokens.relayed(claimed.token)
            mine = msgspec.structs.replace(claimed, name=token.name, role=token.role)
        else:
            given = {LOOPBACK: config.loopback_role, ANONYMOUS: config.anonymous_role, NODE: Role.VIEWER}
            role = given.get(claimed.name, "none")
            if role == "none":
                return None
            mine = msgspec.structs.replace(claimed, role=Role(role))
        return msgspec.structs.replace(mine, role=claimed.role) if mine.role.includes(claimed.role) else mine

    def too_often(self, kind: Kind, caller: str) -> bool:
        """Count one more of the address ``caller``; return whether that is beyond its rate."""
        return not self._bucket(kind, caller).admit(self._clock.monotonic())

    def in_debt(self, kind: Kind, caller: str, *, more: int = 0) -> bool:
        """Count ``more`` of ``caller`` that have happened already, beyond its rate if need be; return whether
        it has to wait until those are made up for."""
        return self._bucket(kind, caller).take(more, self._clock.monotonic()) > 0

    def _bucket(self, kind: Kind, caller: str) -> Bucket:
        key = (kind, source_of(caller)[0])
        bucket = self._rates.get(key)
        if bucket is None:
            bucket = self._rates[key] = Bucket(self._config.rate if kind != "wrong" else WRONG_TOKENS)
            if len(self._rates) > CALLERS:
                self._rates.popitem(last=False)
        else:
            self._rates.move_to_end(key)
        return bucket


class AccessMiddleware:
    """ASGI middleware: lets through with ``scope["gossamer.principal"]``, or answers 401, 403 or 429.

    A request that has a principal already was let in by another node of the cluster, which counted it there.
    """

    def __init__(self, app: ASGIApp, *, tokens: Tokens, config: ApiConfig, clock: Clock) -> None:
        self._app = app
        self._callers = Callers(tokens=tokens, config=config, clock=clock)
        self._clock = clock
        self._log = LogLimit(clock.monotonic, lines=REFUSALS_LOGGED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        claimed: Principal | None = scope.get("gossamer.principal")
        principal, refusal = self._let_in(scope) if claimed is None else self._bounded(claimed)
        refusal = refusal or _refusal(scope, principal)
        if refusal is not None:
            status = refusal[0]
            if status != 429:
                self._note(scope, principal, status, 0.0)
            await refuse(send, *refusal, headers=_MORE_HEADERS[status])
            return
        if principal is not None:
            scope["gossamer.principal"] = principal
        status, begin, ended = 0, self._clock.monotonic(), ""

        async def watched(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message.get("more_body") and principal is not None and principal.token:
                try:
                    self._callers.bounded(principal)
                except BadTokenError as error:
                    ended = str(error)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    # To the application as if the caller had gone.
                    raise ConnectionResetError from None
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except (ConnectionResetError, ClientDisconnect):
            if not ended:
                raise
            self._log.write(log.info, "api_stream_ended", path=scope["path"][:300], error=ended)
        finally:
            if scope["method"] not in SAFE_METHODS or status in (401, 403):
                self._note(scope, principal, status, self._clock.monotonic() - begin)

    def _let_in(self, scope: Scope) -> tuple[Principal | None, Refusal | None]:
        address, loopback = caller_of(scope)
        if self._callers.too_often(_kind(scope), address):
            return None, (429, "this caller asks more often than api.rate allows")
        authorization = next(
            (value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"), None
        )
        try:
            return self._callers.who(authorization, address, loopback=loopback), None
        except BadTokenError as error:
            if self._callers.too_often("wrong", address):
                return None, (429, "too many wrong tokens; wait")
            return None, (401, str(error))

    def _bounded(self, claimed: Principal) -> tuple[Principal | None, Refusal | None]:
        """Return the caller of another node, as it may ask here."""
        try:
            mine = self._callers.bounded(claimed)
        except BadTokenError as error:
            return claimed, (401, str(error))
        if mine is None:
            text = f"this node gives no role to a {claimed.name} caller of another node; ask with a token"
            return claimed, (401, text)
        return mine, None

    def _note(self, scope: Scope, principal: Principal | None, status: int, seconds: float) -> None:
        fields = {
            "who": principal.name if principal else "nobody",
            "role": principal.role.value if principal else "none",
            "address": principal.address if principal else caller_of(scope)[0],
            "method": scope["method"],
            "path": scope["path"][:300],
            "status": status,
            "seconds": round(seconds, 4),
        }
        if status < 400:
            log.info("api_order", **fields)
        else:
            # Wrong tokens of strangers must not hide what callers with a role were refused.
            self._log.write(log.info, "api_refused", kind="stranger" if principal is None else "", **fields)


def _refusal(scope: Scope, principal: Principal | None) -> Refusal | None:
    if is_public(scope["method"], scope["path"]):
        return None
    if principal is None:
        text = "expected a token (Authorization: Bearer gsm_…); `gossamer tokens create` makes one"
        return 401, text
    try:
        principal.demand(Role.VIEWER if scope["method"] in SAFE_METHODS else Role.OPERATOR)
    except RoleTooLowError as error:
        return 403, str(error)
    return None


def _kind(scope: Scope) -> Kind:
    path: str = scope["path"]
    if path in PROBES:
        return "probe"
    lasts = path.endswith(("/live", "/trace")) or b"format=ndjson" in scope["query_string"]
    return "stream" if lasts else "asked"


def is_public(method: str, path: str) -> bool:
    """Return whether a request needs no role."""
    return method in SAFE_METHODS and (path in PUBLIC or path.startswith(PUBLIC_BELOW))


def caller_of(scope: Scope) -> tuple[str, bool]:
    """The address that asks, and whether it is this machine's loopback.

    A proxy on this machine is not who asks: what it passes on comes from elsewhere.
    """
    client = scope.get("client")
    if client is None:
        return "", False
    passed_on = any(name in _FORWARDED for name, _ in scope["headers"])
    address = ip_of(client[0])
    return client[0], not passed_on and address is not None and address.is_loopback


def ip_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """``text`` as an address, None if it is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
