"""Sources of logins: the seam, and the chain of sources that is asked.

A :class:`Source` answers a :class:`Login` with a :class:`Verdict`, or None where it does not know the client;
at once or, where it must think, by an awaitable, and then the channel reads nothing until the answer is
there. The :class:`Chain` asks one after the other; the first verdict counts. A client that no
source knows comes in as anonymous if anonymous access is on.

Rules: 1. A source that fails refuses; nobody comes in because something is broken.  2. Verdicts say who gave
them, so that every decision can be counted and found in the log.  3. Passwords are in no repr and no log. 4.
The user of a client is the name in its verdict, and never a name that it gave and nobody checked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeAlias

import msgspec
from msgspec import structs

from gossamer.mqtt.codec.reasons import ReasonCode


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials of a client; ``certificate`` is the user name in a verified certificate, ``tenant`` the
    tenant of clients of that certificate or listener whose source names none."""

    client_id: str
    username: str | None = None
    password: bytes | None = None
    peer: str = ""
    certificate: str | None = None
    tenant: str = ""

    @property
    def host(self) -> str:
        """The address in ``peer``, without its port."""
        return self.peer.rpartition(":")[0] or self.peer

    def __repr__(self) -> str:
        return f"Login(client_id={self.client_id!r}, username={self.username!r}, peer={self.peer!r})"


class Verdict(msgspec.Struct, frozen=True):
    """``by``: who decided. ``username``: who the client is; a :class:`Source` or :class:`Method` that names
    nobody has verified the name in the login. ``expires_at``: until when (wall clock). ``tenant``: what
    the source says is its tenant, which may be no name of one; None: it says nothing."""

    reason: ReasonCode
    by: str
    username: str | None = None
    expires_at: float | None = None
    tenant: str | None = None


Answer: TypeAlias = Verdict | None


def named(verdict: Verdict, login: Login) -> Verdict:
    """The verdict of a source that checked ``login``, with the name that it thereby verified."""
    return verdict if verdict.username is not None else structs.replace(verdict, username=login.username)


class Source(Protocol):
    """One way to know clients."""

    def ask(self, login: Login) -> Answer | Awaitable[Answer]: ...


class Authenticator(Protocol):
    """Decides; there is always a verdict."""

    def authenticate(self, login: Login) -> Verdict | Awaitable[Verdict]: ...


class Certificate:
    """Clients whose certificate names them; a user name in CONNECT must be the same."""

    def ask(self, login: Login) -> Answer:
        if login.certificate is None:
            return None
        if login.username is not None and login.username != login.certificate:
            return Verdict(ReasonCode.NOT_AUTHORIZED, "certificate")
        return Verdict(ReasonCode.SUCCESS, "certificate", login.certificate)


class Chain:
    """Asks ``sources`` in turn; see the module. ``strict``: a name that none of them knows is refused."""

    def __init__(
        self, sources: Sequence[Source] = (), *, allow_anonymous: bool = False, strict: bool | None = None
    ) -> None:
        self._sources = tuple(sources)
        self._allow = allow_anonymous
        self._strict = bool(sources) if strict is None else strict

    def authenticate(self, login: Login) -> Verdict | Awaitable[Verdict]:
        for at, source in enumerate(self._sources):
            answer = source.ask(login)
            if isinstance(answer, Verdict):
                return named(answer, login)
            if answer is not None:
                return self._go_on(login, at, answer)
        return self._unknown(login)

    async def _go_on(self, login: Login, at: int, answer: Awaitable[Answer]) -> Verdict:
        verdict = await answer
        for source in self._sources[at + 1 :]:
            if verdict is not None:
                break
            later = source.ask(login)
            verdict = later if later is None or isinstance(later, Verdict) else await later
        return self._unknown(login) if verdict is None else named(verdict, login)

    def _unknown(self, login: Login) -> Verdict:
        # With sources, a name that none of them knows is a claim that nobody confirms. With anonymous access
        # alone it proves nothing, but many clients send one: they come in without it.
        if self._allow and (login.username is None or not self._strict):
            return Verdict(ReasonCode.SUCCESS, "anonymous")
        if login.username is None:
            return Verdict(ReasonCode.NOT_AUTHORIZED, "anonymous")
        return Verdict(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "nobody")


class Challenge(msgspec.Struct, frozen=True):
    """The client is to answer ``data``, which goes out as AUTH 0x18."""

    data: bytes | None = None


class Done(msgspec.Struct, frozen=True):
    """It is decided; ``data`` goes with the good news."""

    verdict: Verdict
    data: bytes | None = None


Step: TypeAlias = Challenge | Done


class Exchange(Protocol):
    """One client's enhanced authentication (MQTT 5.0, 4.12), which ends with :class:`Done`."""

    def step(self, data: bytes | None) -> Step | Awaitable[Step]:
        """Take the authentication data of the client's CONNECT or AUTH; at once, or by an awaitable."""


class Method(Protocol):
    """A way to authenticate; ``name`` is what clients call it."""

    @property
    def name(self) -> str: ...
    def begin(self, login: Login) -> Exchange: ...
