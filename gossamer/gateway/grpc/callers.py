"""Who calls, by the metadata of the call, and what they may do.

Rules: 1. ``Basic`` names an MQTT user: the sources of logins that CONNECT asks decide, and the access list
holds as for a client.  2. ``Bearer`` brings a token of the API, with a role: a viewer sees the cluster, an
operator publishes, and an admin sees what others send.  3. Without either, a caller on this machine has
``api.loopback_role``, and everybody else is an anonymous client, if those are let in.  4. An address has
the rate of the API, and little of it for what is wrong.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from inspect import isawaitable
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from gossamer.api import BadTokenError, Callers, Principal, Role, RoleTooLowError, ip_of
from gossamer.errors import GossamerError, NotFoundError, UnavailableError, UsageError
from gossamer.mqtt import Broker, Login, ReasonCode
from gossamer.tenants import DEFAULT

_PASSED_ON = frozenset({"forwarded", "x-forwarded-for", "x-real-ip", "via"})
LONGEST_CLIENT_ID = 256


class CallRefusedError(UsageError):
    """A call is refused; ``code`` is the status that it ends with."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code
        super().__init__(text)


def _denied(text: str) -> CallRefusedError:
    return CallRefusedError(grpc.StatusCode.PERMISSION_DENIED, text)


def code_of(error: GossamerError) -> grpc.StatusCode:
    """Return the status that a call ends with for an error."""
    match error:
        case CallRefusedError():
            return error.code
        case NotFoundError():
            return grpc.StatusCode.NOT_FOUND
        case UnavailableError():
            return grpc.StatusCode.UNAVAILABLE
        case UsageError():
            return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.FAILED_PRECONDITION


class Caller:
    """One call's caller: a ``principal`` of the API, or an MQTT user behind a gate.

    ``gate`` None: the user may do everything. ``denied(action, topic)`` records what the access list refuses.
    """

    def __init__(
        self,
        name: str,
        *,
        principal: Principal | None = None,
        gate: Any = None,
        denied: Callable[[str, str], object] = lambda _action, _topic: None,
    ) -> None:
        self.name = name
        """Client identifier that consumers and subscriptions are noted under."""
        self._principal = principal
        self._gate = gate
        self._denied = denied

    def may_publish(self, topic: str) -> None:
        """Raise :class:`CallRefusedError` unless the caller may publish to a topic."""
        if self._principal is not None:
            self._demand(Role.OPERATOR)
        elif self._gate is not None and not self._gate.may_publish(topic.encode()):
            self._denied("publish", topic)
            raise _denied(f"the access list lets this user not publish to {topic[:200]!r}")

    def may_subscribe(self, topic_filter: str) -> None:
        """Raise :class:`CallRefusedError` unless the caller may subscribe to a filter."""
        if self._principal is not None:
            self._demand(Role.ADMIN)
        elif self._gate is not None and not self._gate.may_subscribe(topic_filter):
            self._denied("subscribe", topic_filter)
            raise _denied(f"the access list lets this user not subscribe to {topic_filter[:200]!r}")

    def may_look(self) -> None:
        """Raise :class:`CallRefusedError` unless the caller may see the cluster."""
        if self._principal is None:
            raise _denied("expected a token of the role viewer; `gossamer tokens create` makes one")
        self._demand(Role.VIEWER)

    def _demand(self, role: Role) -> None:
        assert self._principal is not None  # noqa: S101 - for mypy
        try:
            self._principal.demand(role)
        except RoleTooLowError as error:
            raise _denied(str(error)) from None


class CallerCheck:
    """Finds the caller of each call."""

    def __init__(self, broker: Broker, callers: Callers) -> None:
        self._broker = broker
        self._callers = callers

    async def of(self, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        """Return who calls.

        Raises:
            CallRefusedError: they are not let in, or call too often.
        """
        metadata = {str(name): _text(value) for name, value in context.invocation_metadata() or ()}
        address, peer = _address_of(context.peer())
        if self._callers.too_often("asked", address):
            raise CallRefusedError(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "this address calls more often than api.rate allows"
            )
        name = metadata.get("client-id", "")[:LONGEST_CLIENT_ID] or f"grpc/{peer}"
        authorization = metadata.get("authorization")
        try:
            if authorization is None or authorization[:6].lower() != "basic ":
                loopback = address == "" or bool((ip := ip_of(address)) and ip.is_loopback)
                loopback = loopback and not _PASSED_ON & metadata.keys()
                principal = self._callers.who(authorization, address, loopback=loopback)
                if principal is not None:
                    return Caller(name, principal=principal)
            return await self._user(name, authorization, peer)
        except BadTokenError as error:
            raise self._wrong(address, str(error)) from None

    async def _user(self, name: str, authorization: str | None, peer: str) -> Caller:
        username, password = (None, None) if authorization is None else _basic(authorization)
        access = self._broker.access
        login = Login(client_id=name, username=username, password=password, peer=peer)
        verdict = access.ask(login)
        if isawaitable(verdict):
            verdict = await verdict
        access.decided(login, verdict)
        if verdict.reason != ReasonCode.SUCCESS:
            expected = "the name and password of an MQTT user (Basic), or a token of the API (Bearer gsm_…)"
            raise self._wrong(login.host, f"not let in; expected {expected} as authorization")
        if verdict.tenant not in (None, "", DEFAULT):
            raise _denied(
                "this user is of a tenant, whose clients come by MQTT; expected one of the default tenant"
            )
        user = verdict.username

        def denied(action: str, topic: str) -> None:
            access.denied(action, name, user, topic)

        return Caller(name, gate=access.gate(name, user, self._broker.publishing.cache_get), denied=denied)

    def _wrong(self, address: str, text: str) -> CallRefusedError:
        if self._callers.too_often("wrong", address):
            return CallRefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many wrong credentials; wait")
        return CallRefusedError(grpc.StatusCode.UNAUTHENTICATED, text)


def _basic(authorization: str) -> tuple[str, bytes]:
    try:
        name, _, password = base64.b64decode(authorization[6:].strip(), validate=True).partition(b":")
        return name.decode(), password
    except (binascii.Error, UnicodeDecodeError):
        raise BadTokenError(reason="got Basic credentials that are not base64 of name:password") from None


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _address_of(peer: str) -> tuple[str, str]:
    """Return the address in gRPC's name of a peer, and the same with its port; blank: a Unix socket."""
    family, _, rest = unquote(peer).partition(":")
    if family not in ("ipv4", "ipv6"):
        return "", peer
    host, _, port = rest.rpartition(":")
    host = host.strip("[]")
    return host, f"{host}:{port}"
