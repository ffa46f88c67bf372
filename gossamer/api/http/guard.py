"""Requests refused before authentication: from pages of other sites, with malicious paths, with large bodies.

Rules: 1. The Host header must name this machine or be an address: a name that was rebound to it is not.
2. The Origin, when there is one, must be the Host.  3. What a browser says of the page that asks
(``Sec-Fetch-Site``) must be this node, or nobody; only the console itself may be opened from elsewhere, as a
page.  4. A path means one thing: no NUL, no step upwards, whichever way they are written.  5. Bodies are
small and have one length.

Rejected: letting ``same-site`` in. Every port of ``localhost`` is one site, and so is whatever somebody runs
there.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from gossamer.api.http.access import ip_of, is_public
from gossamer.api.http.answers import refuse
from gossamer.api.http.limits import MAX_BODY, Refusal, too_large

CLOSE = [(b"connection", b"close")]
_HERE = frozenset({"same-origin", "none"})


class GuardMiddleware:
    """ASGI middleware that answers 400, 403, 413 or 421 by itself."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._hosts = hosts | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refusal = _absolute(scope, headers) or self._refusal(scope, headers)
        if refusal is not None:
            await refuse(send, *refusal, headers=CLOSE)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> Refusal | None:
        host = _host_name(headers.get(b"host", ""))
        if host is None or not (host in self._hosts or ip_of(host)):
            return 421, "the Host header must be localhost, an IP address or the bound host"
        if _is_foreign(scope, headers):
            return 403, "requests from pages of another origin are refused"
        if not scope.get("gossamer.relayed") and _is_tricky(scope["raw_path"]):
            return 400, "path: got a NUL or a step upwards, expected a plain path"
        length = headers.get(b"content-length", "0")
        if b"transfer-encoding" in headers and b"content-length" in headers:
            return 400, "got Transfer-Encoding and Content-Length, expected one of them"
        if not length.isdecimal() or int(length) > MAX_BODY:
            return too_large()
        return None


def _absolute(scope: Scope, headers: dict[bytes, str]) -> Refusal | None:
    """Take a whole address apart (RFC 9112, 3.2.2): it counts for more than the Host header."""
    path: str = scope["path"]
    if path.startswith("/"):
        return None
    if path == "*" and scope["method"] == "OPTIONS":
        return 405, "OPTIONS *"
    scheme, found, rest = path.partition("://")
    if not found or scheme.lower() not in ("http", "https"):
        return 400, "path: got no path, expected one that begins with /"
    host, _, path = rest.partition("/")
    headers[b"host"] = host
    scope["path"] = f"/{path}"
    scope["raw_path"] = b"/" + scope["raw_path"].partition(b"://")[2].partition(b"/")[2]
    return None


def _is_foreign(scope: Scope, headers: dict[bytes, str]) -> bool:
    origin = headers.get(b"origin")
    if origin is not None:
        try:
            return urlsplit(origin).netloc != headers.get(b"host")
        except ValueError:
            return True
    if headers.get(b"sec-fetch-site", "none").strip().lower() in _HERE:
        return False
    # A link to the console may stand anywhere; what it opens asks for the rest itself.
    opened = headers.get(b"sec-fetch-mode") == "navigate" and headers.get(b"sec-fetch-dest") == "document"
    return not (opened and is_public(scope["method"], scope["path"]))


def _is_tricky(path: bytes) -> bool:
    # A name with a slash in it is one part, which is quoted. Twice, since a proxy may have read it once.
    parts = [unquote(unquote(part)) for part in path.decode("latin-1").replace("\\", "/").split("/")]
    return any(part == ".." or "\0" in part for part in parts)


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
