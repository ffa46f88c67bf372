"""The web console: files that are built from ``console/`` and ship with the package.

Rules: 1. They are read once and served from memory, so that no request waits for a disc.  2. They load
nothing from elsewhere, and their policy forbids it.  3. They tell nothing of the cluster, so that anybody may
have them; what they show they ask of the API, with the rights of who looks.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' ws: wss:; "
    # Reports, which come with a policy of their own.
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Not asked of the system, which may not know them.
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Asked for again each time, and answered in a word while nothing changed.
    "cache-control": "no-cache",
}


class _File:
    def __init__(self, name: str, content: bytes) -> None:
        self.content = content
        self.etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        self.type = TYPES.get(name.rpartition(".")[2], "text/plain")

    def answer(self, request: Request) -> Response:
        headers = {**HEADERS, "etag": self.etag}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.type, headers=headers)


def console_files() -> APIRouter:
    """``/``, ``/console/…``, and ``/docs``, which is a page of it."""
    router = APIRouter(include_in_schema=False)
    folder = files("gossamer.api") / "console"
    held = {file.name: _File(file.name, file.read_bytes()) for file in folder.iterdir() if file.is_file()}

    @router.get("/")
    async def index(request: Request) -> Response:
        return held["index.html"].answer(request)

    @router.get("/docs")
    async def docs() -> Response:
        return RedirectResponse("/#/api")

    @router.get("/console/{name}")
    async def file(name: Annotated[str, Path(max_length=100)], request: Request) -> Response:
        found = held.get(name)
        if found is None:
            raise HTTPException(404, "Not Found")
        return found.answer(request)

    return router
