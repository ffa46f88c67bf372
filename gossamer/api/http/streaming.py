"""An answer that lasts: events, traces, long lists.

Rules: 1. It takes one of the places for streams, and gives its turn as a request back; without a place it is
a problem, and nothing is made of its source.  2. However it ends, also before the first byte or in the middle
of writing, its source is closed and its place is free.  3. What another node asks for on somebody's behalf
was counted there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gossamer.api.http.limits import Limits, Turn, caller_of_streams, overloaded

__all__ = ["NDJSON", "StreamAnswer"]

NDJSON = "application/x-ndjson"


class StreamAnswer(StreamingResponse):
    """Streaming response that holds one of the places for streams, or is a problem where none is free.

    ``source`` is a generator that ``body`` reads, if any, to be closed with it.
    """

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        *,
        source: AsyncGenerator[object, None] | None = None,
        media_type: str = NDJSON,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(body, status_code, media_type=media_type, headers=headers)
        self._body = body
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._counted(scope, receive, send)
        finally:
            await self._body.aclose()
            if self._source is not None:
                await self._source.aclose()

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("gossamer.relayed"):
            await super().__call__(scope, receive, send)
            return
        limits: Limits = scope["app"].state.limits
        caller = caller_of_streams(scope)
        refusal = limits.open_stream(caller)
        if refusal is not None:
            await overloaded(send, refusal)
            return
        turn: Turn | None = scope.get("gossamer.turn")
        if turn is not None:
            turn.end()
        try:
            await super().__call__(scope, receive, send)
        finally:
            limits.close_stream(caller)
