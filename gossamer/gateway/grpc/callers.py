"""Who calls, by the metadata of the call, and what they may do.

Rules: 1. ``Basic`` names an MQTT user: the sources of logins that CONNECT asks decide, and the access list
holds as for a client.  2. ``Bearer`` brings a token of the API, with a role: a viewer sees the cluster, an
operator publishes, and an admin sees what others send.  3. Without either, a caller on this machine has
``api.loopback_role``, and everybody else is an anonymous client, if those are let in.  4. An address has
the rate of the API, and little of it for what is wrong; one that has used that up has no password looked at,
which costs a hundred times what a call does.  5. An open call is judged again every second: it ends when its
credentials do, and when the access list does not allow it any more.
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

AGAIN = 1.0
"""Seconds after which an open call is judged again."""
_PASSED_ON = frozenset({"forwarded", "x-forwarded-for", "x-real-ip", "via"})
LONGEST_CLIENT_ID = 256


class CallRefusedError(UsageError):
    """A call is refused; ``code`` is the status that it ends with."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code
        super().__init__(text)


def _denied(text: str) -> CallRefusedError:
    return CallRefusedError(grpc.StatusCode.PERMISSION_DENIED, text)


def _wait() -> CallRefusedError:
    return CallRefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many wrong credentials; wait")


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

    ``gate`` None: the user may do everything. ``expires_at``: until when the credentials hold (wall clock).
    ``denied(action, topic)`` records what the access list refuses.
    """

    def __init__(
        self,
        name: str,
        *,
        principal: Principal | None = None,
        gate: Any = None,
        expires_at: float | None = None,
        denied: Callable[[str, str], object] = lambda _action, _topic: None,
    ) -> None:
        self.name = name
        """Client identifier that consumers and subscriptions are noted under."""
        self.principal = principal
        self.gate = gate
        self.expires_at = expires_at
        self._denied = denied

    def may_publish(self, topic: str) -> None:
        """Raise :class:`CallRefusedError` unless the caller may publish to a topic."""
        if self.principal is not None:
            self._demand(Role.OPERATOR)
        elif self.gate is not None and not self.gate.may_publish(topic.encode()):
            self._denied("publish", topic)
            raise _denied(f"the access list lets this user not publish to {topic[:200]!r}")

    def may_subscribe(self, topic_filter: str) -> None:
        """Raise :class:`CallRefusedError` unless the caller may subscribe to a filter."""
        if self.principal is not None:
            self._demand(Role.ADMIN)
        elif self.gate is not None and not self.gate.may_subscribe(topic_filter):
            self._denied("subscribe", topic_filter)
            raise _denied(f"the access list lets this user not subscribe to {topic_filter[:200]!r}")

    def may_look(self) -> None:
        """Raise :class:`CallRefusedError` unless the caller may see the cluster."""
        if self.principal is None:
            raise _denied("expected a token of the role viewer; `gossamer tokens create` makes one")
        self._demand(Role.VIEWER)

    def _demand(self, role: Role) -> None:
        assert self.principal is not None  # noqa: S101 - for mypy
        try:
            self.principal.demand(role)
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

    def watch(
        self, caller: Caller, topic_filter: str, end: Callable[[CallRefusedError], object]
    ) -> Callable[[], object]:
        """Judge an open call of a subscriber every second, until what is returned is called.

        ``end`` is called once, when the caller may not subscribe to the filter any more.
        """

        def look(now: float) -> float | None:
            try:
                self._judge_again(caller, topic_filter)
            except CallRefusedError as error:
                end(error)
                return None
            return now + AGAIN

        return self._broker.wheel.at(self._broker.fanout.now(), look).cancel

    def _judge_again(self, caller: Caller, topic_filter: str) -> None:
        if caller.principal is not None:
            try:
                mine = self._callers.bounded(caller.principal)
            except BadTokenError as error:
                raise CallRefusedError(grpc.StatusCode.UNAUTHENTICATED, str(error)) from None
            if mine is None:
                raise _denied(f"this node gives no role to a {caller.principal.name} caller")
            caller.principal = mine
            caller.may_subscribe(topic_filter)
        elif caller.expires_at is not None and caller.expires_at <= self._broker.clock.wall():
            text = "the credentials of this call have expired; call again with new ones"
            raise CallRefusedError(grpc.StatusCode.UNAUTHENTICATED, text)
        elif caller.gate is not None and caller.gate.is_stale:
            caller.gate.renew()
            caller.may_subscribe(topic_filter)

    async def _user(self, name: str, authorization: str | None, peer: str) -> Caller:
        username, password = (None, None) if authorization is None else _basic(authorization)
        access = self._broker.access
        login = Login(client_id=name, username=username, password=password, peer=peer)
        if password is not None and self._callers.in_debt("wrong", login.host):
            raise _wait()
        verdict = access.ask(login)
        if isawaitable(verdict):
            verdict = await verdict
        access.decided(login, verdict)
        if verdict.reason in (ReasonCode.SERVER_BUSY, ReasonCode.SERVER_UNAVAILABLE):
            text = f"this node cannot check the user now ({verdict.reason.name.lower()}); try again"
            raise CallRefusedError(grpc.StatusCode.UNAVAILABLE, text)
        if verdict.reason != ReasonCode.SUCCESS:
            expected = "the name and password of an MQTT user (Basic), or a token of the API (Bearer gsm_…)"
            text = f"not let in; expected {expected} as authorization"
            if password is None:
                raise self._wrong(login.host, text)
            # Many are looked at together: each counts, or a crowd of them would cost as much as one.
            self._callers.in_debt("wrong", login.host, more=1)
            raise CallRefusedError(grpc.StatusCode.UNAUTHENTICATED, text)
        if verdict.tenant not in (None, "", DEFAULT):
            raise _denied(
                "this user is of a tenant, whose clients come by MQTT; expected one of the default tenant"
            )
        user = verdict.username

        def denied(action: str, topic: str) -> None:
            access.denied(action, name, user, topic)

        gate = access.gate(name, user, self._broker.publishing.cache_get)
        return Caller(name, gate=gate, expires_at=verdict.expires_at, denied=denied)

    def _wrong(self, address: str, text: str) -> CallRefusedError:
        if self._callers.too_often("wrong", address):
            return _wait()
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
