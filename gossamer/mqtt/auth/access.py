"""Access: the sources, the ACL and the record of every decision, put together as the configuration says.

Every decision is counted and logged (:class:`Decisions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from gossamer.config import MqttAuthConfig
from gossamer.mqtt.auth.acl import Acl, Gate
from gossamer.mqtt.auth.callout import HttpCallout
from gossamer.mqtt.auth.files import Reloadable
from gossamer.mqtt.auth.passwords import PasswordFile
from gossamer.mqtt.auth.scram import Scram
from gossamer.mqtt.auth.sources import Authenticator, Certificate, Chain, Login, Method, Source, Verdict
from gossamer.mqtt.auth.tokens import Tokens
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.flow.backpressure import Bucket
from gossamer.routes import Route
from gossamer.tenants import split


class Access:
    """Access control of one node: authenticates clients and authorizes what they do.

    Reads the files of ``config``, which blocks: make it before the loop is busy. ``certificates``: some
    listener takes names from certificates. ``cookie``: see :class:`~gossamer.mqtt.auth.scram.Scram`.

    Raises:
        UsageError: one of them cannot be used.
    """

    def __init__(
        self,
        config: MqttAuthConfig,
        *,
        monotonic: Callable[[], float],
        authenticator: Authenticator | None = None,
        certificates: bool = False,
        cookie: str | None = None,
    ) -> None:
        self.reloadable: list[Reloadable] = []
        """Sources that are read from files, again when these change."""
        self._record = Decisions(rate=config.log_rate, now=monotonic)
        self.decisions = self._record.counts
        self.methods: dict[str, Method] = {}
        """Enhanced authentication, by the name of the method."""
        self._callout: HttpCallout | None = None
        self.acl = None if config.acl_file is None else Acl(config.acl_file)
        if self.acl is not None:
            self.reloadable.append(self.acl)
        if config.scram_file is not None:
            scram = Scram(config.scram_file, cookie=cookie)
            self.reloadable.append(scram)
            self.methods[scram.name] = scram
        self.has_users = authenticator is not None or certificates
        """Clients can have verified names; False: all are anonymous."""
        self._authenticator = authenticator or self._chain(config, monotonic)

    def _chain(self, config: MqttAuthConfig, monotonic: Callable[[], float]) -> Chain:
        sources: list[Source] = []
        if config.password_file is not None:
            passwords = PasswordFile(config.password_file)
            self.reloadable.append(passwords)
            sources.append(passwords)
        if config.jwt is not None:
            tokens = Tokens(config.jwt)
            self.reloadable.append(tokens)
            sources.append(tokens)
        if config.http is not None:
            self._callout = HttpCallout(config.http, now=monotonic)
            sources.append(self._callout)
        # A certificate has been verified by the time anybody is asked. It alone makes no name's absence
        # suspicious, so it does not count as a source where it is the only one.
        strict = bool(sources or self.methods)
        self.has_users = self.has_users or strict
        return Chain([Certificate(), *sources], allow_anonymous=config.allow_anonymous, strict=strict)

    def ask(self, login: Login) -> Verdict | Awaitable[Verdict]:
        """Return whether a client may connect."""
        return self._authenticator.authenticate(login)

    def decided(self, login: Login, verdict: Verdict) -> None:
        """Record how a CONNECT was decided."""
        allowed = verdict.reason == ReasonCode.SUCCESS
        # Who is let in has the verified name; who is not, the one that it gave.
        username = verdict.username if allowed else verdict.username or login.username
        claimed = {"claimed": login.username} if login.username not in (None, username) else {}
        self._record.note(
            "connect_allowed" if allowed else "connect_refused",
            "connect",
            verdict.by,
            how="allow" if allowed else "deny",
            client_id=login.client_id,
            username=username,
            peer=login.peer,
            reason=verdict.reason.name.lower(),
            **claimed,
        )

    def foreign(self, client_id: str, username: str | None, peer: str) -> None:
        """Record that a client was refused since the session with its identifier is another user's."""
        self._record.note(
            "session_refused",
            "session",
            "owner",
            client_id=client_id,
            username=username,
            peer=peer,
            hint="the session is another user's; if the user was renamed, end it: gossamer clients kick",
        )

    def denied(
        self,
        action: str,
        client_id: str,
        username: str | None,
        topic: str,
        *,
        event: str = "acl_denied",
        by: str = "acl",
    ) -> None:
        """Record that something was refused, by the ACL unless told otherwise."""
        self._record.note(
            event, action, by, action=action, client_id=client_id, username=username, topic=topic
        )

    async def close(self) -> None:
        """Let go of connections; whoever is asked after that opens them again."""
        if self._callout is not None:
            await self._callout.close()

    def gate(
        self,
        client_id: str,
        username: str | None,
        look_up: Callable[[bytes], Route | None],
        tenant: str = "",
    ) -> Gate | None:
        """Return the gate of a client; None where everybody may do everything."""
        if self.acl is None:
            return None
        allowed = partial(self._record.count, by="acl", how="allow")
        return Gate(self.acl, client_id, username, look_up, tenant=tenant, allowed=allowed)


log = structlog.get_logger(__name__)


class Decisions:
    """Record of every decision about clients: who may connect, publish, subscribe, leave a will.

    Each is counted by what was asked, who decided and how, and is a line in the log. Lines are bounded in
    number (``rate`` a second, and as many in a burst), and how many were left out is said with the next one:
    a client that tries ten thousand passwords a second must not fill the disc. What a rule of the ACL allows
    is counted when it is decided, which is once for each topic that a client publishes to, and is no line.
    """

    def __init__(self, *, rate: float, now: Callable[[], float]) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """By question, who decided, and how."""
        self._bucket = Bucket(rate)
        self._now = now
        self._unsaid = 0

    def count(self, question: str, by: str, how: str) -> None:
        """Count one."""
        self.counts[question, by, how] += 1

    def note(self, event: str, question: str, by: str, *, how: str = "deny", **fields: object) -> None:
        """Count one, and write it down."""
        client_id = fields.get("client_id")
        if isinstance(client_id, str) and "\0" in client_id:
            fields["tenant"], fields["client_id"] = split(client_id)
        self.count(question, by, how)
        if not self._bucket.admit(self._now()):
            self._unsaid += 1
            self.count("log", "rate", "left_out")
            return
        if self._unsaid:
            log.warning("decisions_left_out", count=self._unsaid)
            self._unsaid = 0
        log.info(event, by=by, **fields)
