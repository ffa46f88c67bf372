"""Problems (RFC 9457) that are answered before or beside a route."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi.responses import JSONResponse
from starlette.types import Send

from gossamer.api.model.base import Problem

__all__ = ["PROBLEM", "problem", "refuse"]

PROBLEM = "application/problem+json"


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
