"""Questions to the API for who waits at the prompt: by the standard library, which is loaded in no time.

httpx takes longer to load than a node to answer. Rule: any trouble is an error; who asks decides that nothing
is to be said about it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gossamer.cli.client import credentials, trusted, whole
from gossamer.cli.refusals import BadUrlError, NotNowError

__all__ = ["QuickApi"]

MOST = 4 << 20
"""Bytes of an answer; a page of a list has far fewer."""


class QuickApi:
    """A node's API, of which lists are read; with ``node`` that of another one, through it."""

    def __init__(self, url: str, *, node: str | None = None, timeout: float) -> None:
        self._url = whole(url)
        self._node = node
        self._timeout = timeout

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:
        """What is answered to ``/api/v1/`` and ``path``.

        Raises:
            OSError, HTTPException, ValueError, GossamerError: there is no such answer.
        """
        parts = urlsplit(self._url)
        if not parts.hostname:
            raise BadUrlError(got=self._url, problem="it names no host")
        if parts.scheme == "https":
            link: HTTPConnection = HTTPSConnection(
                parts.hostname, parts.port, timeout=self._timeout, context=trusted()
            )
        else:
            link = HTTPConnection(parts.hostname, parts.port, timeout=self._timeout)
        relay = f"nodes/{quote(self._node, safe='@')}/" if self._node else ""
        query = f"?{urlencode(params)}" if params else ""
        try:
            link.request("GET", f"/api/v1/{relay}{path}{query}", headers=credentials())
            answer = link.getresponse()
            if answer.status != 200:
                raise NotNowError(f"{self._url} answered {answer.status}")
            return json.loads(answer.read(MOST))
        finally:
            link.close()
