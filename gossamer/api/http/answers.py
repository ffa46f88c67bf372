"""Problems (RFC 9457) that are answered before or beside a route, and pages that programs made.

Whatever stands in such a page, it is not of this origin, so it reads no token and asks no API with anybody's
rights; it runs nothing, loads nothing, and is framed by the console only, wherever it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from fastapi.responses import JSONResponse, Response
from starlette.types import Send

from gossamer.api.model.base import Problem

PROBLEM = "application/problem+json"
# As RFC 9110 has them; Python had older ones.
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
SANDBOX = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def title_of(status: int) -> str:
    """The words for a status."""
    return _TITLES.get(status) or HTTPStatus(status).phrase


def problem(status: int, detail: str, *, title: str = "") -> JSONResponse:
    """The answer of a route that cannot do what it was asked; ``title`` is the status in words."""
    body = Problem(title=title or title_of(status), status=status, detail=detail).model_dump()
    return JSONResponse(body, status_code=status, media_type=PROBLEM)


async def refuse(
    send: Send, status: int, detail: str, *, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer without a route."""
    answer = problem(status, detail)
    raw = [*answer.raw_headers, *headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body})


def page_response(page: bytes, *, status: int = 200) -> Response:
    """Answer with ``page``."""
    return Response(page, status_code=status, media_type="text/html", headers=SANDBOX)
