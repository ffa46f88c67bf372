"""HTTP callout: a service of the operator decides about each CONNECT.

It gets ``POST {"client_id", "username", "password", "peer"}`` and answers 200 with ``{"result": "allow" |
"deny" | "ignore", "username": …, "tenant": …}``; anything else, a time-out too, refuses with "server
unavailable".

Rules: 1. At most ``max_concurrent`` questions are on the way and :data:`BACKLOG` times as many clients wait,
half of them of one address, which take turns (:mod:`gossamer.mqtt.auth.turns`); the next is told that the
server is busy.  2. An answer holds briefly for the same client, user and password,
of which only a keyed digest is kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import httpx
import structlog

from gossamer.config import HttpAuthConfig, without_password
from gossamer.mqtt.auth.sources import Answer, Login, Verdict
from gossamer.mqtt.auth.turns import Turns
from gossamer.mqtt.codec.reasons import ReasonCode

log = structlog.get_logger(__name__)

BACKLOG = 8
CACHE_SIZE = 10_000


class HttpCallout:
    """A source of :mod:`gossamer.mqtt.auth.sources`. ``transport`` is httpx's seam, for tests."""

    def __init__(
        self,
        config: HttpAuthConfig,
        *,
        now: Callable[[], float],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._config = config
        self._now = now
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        total = config.max_concurrent * BACKLOG
        self._turns = Turns(config.max_concurrent, total=total, each=total // 2)
        self._key = secrets.token_bytes(32)
        self._cache: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()

    def ask(self, login: Login) -> Answer | Awaitable[Answer]:
        key = self._digest(login)
        found = self._cache.get(key)
        if found is not None and found[0] > self._now():
            return found[1]
        return self._ask(login, key)

    async def _ask(self, login: Login, key: bytes) -> Answer:
        if not await self._turns.take(login.host):
            return Verdict(ReasonCode.SERVER_BUSY, "http")
        try:
            answer = await self._post(login)
        except (httpx.HTTPError, ValueError, TimeoutError) as error:
            url, shown = self._config.url, without_password(self._config.url)
            text = str(error).replace(url, shown) or type(error).__name__
            log.error("auth_callout_failed", url=shown, error=text)
            return Verdict(ReasonCode.SERVER_UNAVAILABLE, "http")
        finally:
            self._turns.give()
        if self._config.cache:
            self._cache[key] = (self._now() + self._config.cache, answer)
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return answer

    async def _post(self, login: Login) -> Answer:
        if self._client is None:
            # It trusts no proxy of the environment: it carries passwords.
            self._client = httpx.AsyncClient(
                timeout=self._config.timeout, transport=self._transport, trust_env=False
            )
        question = {
            "client_id": login.client_id,
            "username": login.username,
            "password": None if login.password is None else login.password.decode(errors="replace"),
            "peer": login.peer,
        }
        async with asyncio.timeout(self._config.timeout):
            response = await self._client.post(self._config.url, json=question)
        response.raise_for_status()
        data = response.json()
        result = data.get("result") if isinstance(data, dict) else None
        if result == "ignore":
            return None
        if result == "deny":
            return Verdict(ReasonCode.NOT_AUTHORIZED, "http")
        if result != "allow":
            raise ValueError('expected {"result": "allow" | "deny" | "ignore"}')
        name = data.get("username", login.username)
        tenant = data.get("tenant")
        return Verdict(
            ReasonCode.SUCCESS,
            "http",
            name if isinstance(name, str) else login.username,
            tenant=None if tenant is None else str(tenant),
        )

    def _digest(self, login: Login) -> bytes:
        state = hashlib.blake2b(key=self._key)
        named = login.client_id.encode(), (login.username or "\0").encode(), login.host.encode()
        for part in (*named, login.password or b""):
            state.update(len(part).to_bytes(4, "big") + part)
        return state.digest()

    async def close(self) -> None:
        """Let go of its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None
