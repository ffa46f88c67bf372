"""Pages that programs made, served so that they can do nothing, wherever they are opened.

Whatever stands in such a page, it is not of this origin, so it reads no token and asks no API with anybody's
rights; it runs nothing, loads nothing, and is framed by the console only.
"""

from __future__ import annotations

from fastapi.responses import Response

__all__ = ["SANDBOX", "page_response"]

SANDBOX = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def page_response(page: bytes, *, status: int = 200) -> Response:
    """Answer with ``page``."""
    return Response(page, status_code=status, media_type="text/html", headers=SANDBOX)
