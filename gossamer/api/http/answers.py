"""Problems (RFC 9457) that are answered before or beside a route, and pages that programs made.

Whatever stands in such a page, it is not of this origin, so it reads no token and asks no API with anybody's
rights; it runs nothing, loads nothing, and is framed by the console only, wherever it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi.responses import JSONResponse, Response
from starlette.types import Send

from gossamer.api.model.base import Problem

__all__ = ["PROBLEM", "page_response", "problem", "refuse"]

PROBLEM = "application/problem+json"
SANDBOX = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def problem(status: int, title: str, detail: str) -> JSONResponse:
    """The answer of a route that cannot do what it was asked."""
    body = Problem(title=title, status=status, detail=detail).model_dump()
    return JSONResponse(body, status_code=status, media_type=PROBLEM)


async def refuse(
    send: Send, status: int, title: str, detail: str, *, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer without a route."""
    answer = problem(status, title, detail)
    raw = [*answer.raw_headers, *headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body})


def page_response(page: bytes, *, status: int = 200) -> Response:
    """Answer with ``page``."""
    return Response(page, status_code=status, media_type="text/html", headers=SANDBOX)
