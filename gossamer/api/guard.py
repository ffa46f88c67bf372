"""What is refused before anybody looks who asks: pages of other sites, and bodies that are too large.

Rules: 1. The Host header must name this machine or be an address: a name that was rebound to it is not.
2. The Origin, when there is one, must be the Host.  3. Bodies are small.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gossamer.api.answers import refuse

__all__ = ["Guard"]

MAX_BODY = 64 * 1024


class Guard:
    """ASGI middleware that answers 403, 413 or 421 by itself."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._hosts = hosts | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(headers)
        if refusal is not None:
            await refuse(send, *refusal)
            return
        await self._app(scope, _bounded(receive), send)

    def _refusal(self, headers: dict[bytes, str]) -> tuple[int, str, str] | None:
        host = _host_name(headers.get(b"host", ""))
        if host is None or not (host in self._hosts or _is_address(host)):
            return (
                421,
                "Misdirected Request",
                "the Host header must be localhost, an IP address or the bound host",
            )
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin).netloc != headers.get(b"host"):
            return 403, "Forbidden", "requests from pages of another origin are refused"
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return 413, "Content Too Large", f"expected a body of at most {MAX_BODY} bytes"
        return None


def _bounded(receive: Receive) -> Receive:
    """``receive`` that ends a chunked body at the limit: the application sees a client that went away."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return message if taken <= MAX_BODY else {"type": "http.disconnect"}

    return bounded


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
