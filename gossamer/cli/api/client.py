"""The command's side of the HTTP API: ask one node, or through it any other, or all of them.

Rules: 1. Every request is bounded in time.  2. An answer that is a problem becomes an error of the one tree,
with the node's own words.  3. Asking all nodes gives what there is and names who did not answer.  4. Another
node is asked through the one at hand, over the links of the cluster: its own API need not be open to us.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from gossamer.cli.api.errors import (
    Answer,
    BadAnswerError,
    BadUrlError,
    BrokeOffError,
    CertificateFileError,
    NodeUnreachableError,
    NotNowError,
    RefusedError,
    TokenFileError,
    UnknownNameError,
    bad_answer,
    error_of,
    reason_of,
)
from gossamer.errors import GossamerError

if TYPE_CHECKING:
    import httpx

__all__ = ["DEFAULT_API", "ApiClient", "Gathered", "Params", "Rows", "credentials", "trusted", "whole"]

DEFAULT_API = "http://127.0.0.1:8091"
_PAGE = 5000
_BELOW = "/api/v1/"

Params = Mapping[str, str | int | bool]


@dataclass(slots=True)
class Gathered:
    """What several nodes answered, and who did not."""

    items: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.items)


class Rows:
    """A long list as it comes; who did not answer is known once it is through."""

    def __init__(self, lines: Iterator[dict[str, Any]], limit: int | None) -> None:
        self._lines = lines
        self._limit = limit
        self.missing: dict[str, str] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return islice(self._all(), self._limit)

    def _all(self) -> Iterator[dict[str, Any]]:
        for line in self._lines:
            if "missing" in line and len(line) == 1:
                self.missing = line["missing"]
            else:
                yield line


class ApiClient:
    """One node's API; with ``node`` that of another node, through the one at ``url``."""

    def __init__(
        self,
        url: str,
        *,
        node: str | None = None,
        timeout: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # Here and below, so that the rest of the command starts without loading it.
        import httpx

        self.url = whole(url)
        self.asked = node
        self._timeout = timeout
        self._transport = transport
        try:
            # trust_env off: a proxy of the environment has no business between this machine and itself.
            self._http = httpx.Client(
                base_url=self.url,
                timeout=timeout,
                headers=credentials(),
                transport=transport,
                trust_env=False,
                follow_redirects=False,
                # Reading certificates takes longer than the rest of the command.
                verify=trusted() if self.url.startswith("https://") else False,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise BadUrlError(got=url, problem=str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None) -> Any:
        """The answer to a GET, decoded."""
        return self._request("GET", path, params=dict(params or {}))

    def document(self, path: str, params: Params | None = None) -> dict[str, Any]:
        """The answer to a GET that is one object."""
        found = self.get(path, params)
        if not isinstance(found, dict):
            raise self._odd(path, found, "an object")
        return found

    def rows(self, path: str, params: Params | None = None) -> list[dict[str, Any]]:
        """The answer to a GET that is a list."""
        found = self.get(path, params)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise self._odd(path, found, "a list of objects")
        return found

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a POST, decoded."""
        return self._request("POST", path, json=dict(body or {}))

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a PUT, decoded."""
        return self._request("PUT", path, json=dict(body))

    def delete(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The answer to a DELETE, decoded."""
        return self._request("DELETE", path, params=dict(params or {}))

    def page(self, path: str) -> bytes:
        """The answer to a GET that is a page for a browser."""
        return self._answer("GET", path).content

    def pages(
        self, path: str, params: Params | None = None, *, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Every item of a long list, or the first ``limit``."""
        return islice(self._pages(path, {"limit": min(limit or _PAGE, _PAGE), **(params or {})}), limit)

    def _pages(self, path: str, wanted: dict[str, str | int | bool]) -> Iterator[dict[str, Any]]:
        while True:
            page = self.document(path, wanted)
            yield from page["items"]
            if page["next"] is None:
                return
            wanted["after"] = page["next"]

    def listed(self, path: str, params: Params | None = None, *, limit: int | None = None) -> Rows:
        """A long list of all nodes, or of the one that is meant, ``limit`` items of it at most."""
        wanted = {**(params or {}), "format": "ndjson", **({"scope": "node"} if self.asked else {})}
        return Rows(self.stream(path, wanted, patience=self._timeout), limit)

    def stream(
        self, path: str, params: Mapping[str, str | float | bool], *, patience: float
    ) -> Iterator[dict[str, Any]]:
        """The lines of an answer as they come, ``patience`` seconds between two at most, empty ones too."""
        for line in self._lines(path, params, patience):
            if line:
                yield self._object(path, line)

    def events(self, path: str, *, patience: float) -> Iterator[dict[str, Any]]:
        """The data of server-sent events as they come."""
        for line in self._lines(path, {}, patience):
            if line.startswith("data: "):
                yield self._object(path, line.removeprefix("data: "))

    def node(self, name: str) -> ApiClient:
        """The API of the node called ``name``, asked through this one."""
        return ApiClient(self.url, node=name, timeout=self._timeout, transport=self._transport)

    def direct(self, name: str) -> ApiClient:
        """The API of the node called ``name`` at its own address, as this node knows it."""
        nodes = self.rows("/api/v1/nodes")
        for row in nodes:
            if row["name"] == name:
                return self._of(row)
        raise _no_such_node(name, nodes)

    def gather(
        self,
        path: str,
        params: Params | None = None,
        *,
        node: str | None = None,
    ) -> Gathered:
        """Every item of a long list on every node that is not gone, each with the ``node`` it came from."""

        def items(peer: ApiClient, name: str) -> list[dict[str, Any]]:
            return [Answer(item, node=name) for item in peer.pages(path, {**(params or {}), "scope": "node"})]

        return self.each(items, node=node)

    def rows_all(self, path: str) -> Gathered:
        """The list that each node that is not gone answers with, each row with the ``node`` it came from."""
        return self.each(lambda peer, name: [Answer(row, node=name) for row in peer.rows(path)])

    def get_all(self, path: str, *, node: str | None = None) -> Gathered:
        """The answer of every node that is not gone to the same GET, or of ``node`` alone."""
        return self.each(lambda peer, name: [Answer(peer.document(path), node=name)], node=node)

    def post_all(self, path: str, body: Mapping[str, Any], *, node: str | None = None) -> Gathered:
        """The answer of every node that is not gone to the same POST, or of ``node`` alone."""
        return self.each(lambda peer, name: [Answer(peer.post(path, body), node=name)], node=node)

    def put_all(self, path: str, body: Mapping[str, Any], *, node: str | None = None) -> Gathered:
        """The answer of every node that is not gone to the same PUT, or of ``node`` alone."""
        return self.each(lambda peer, name: [Answer(peer.put(path, body), node=name)], node=node)

    def each(
        self, ask: Callable[[ApiClient, str], list[dict[str, Any]]], *, node: str | None = None
    ) -> Gathered:
        """What ``ask`` has of every node that is not gone, or of ``node`` alone."""
        gathered = Gathered()
        rows = self.rows("/api/v1/nodes")
        if node is not None and node not in [row["name"] for row in rows]:
            raise _no_such_node(node, rows)
        for row in sorted(rows, key=lambda row: str(row["name"])):
            name = row["name"]
            if node not in (None, name) or row["status"] == "left":
                continue
            if row["status"] in ("offline", "stopped"):
                gathered.missing[name] = f"it is {row['status']}"
                continue
            try:
                if row["link"] == "self":
                    gathered.items += ask(self, name)
                else:
                    with self.node(name) as peer:
                        gathered.items += ask(peer, name)
            except GossamerError as error:
                # What the node at hand refuses is refused; what another one does leaves a gap.
                if row["link"] == "self" or isinstance(error, NodeUnreachableError):
                    raise
                gathered.missing[name] = str(error)
        return gathered

    def _of(self, row: Mapping[str, Any]) -> ApiClient:
        port = row["ports"].get("api")
        if not port:
            raise NotNowError(f"{row['name']} serves no API, or not yet (is api.enable off there?)")
        host = row["address"].rpartition(":")[0].strip("[]")
        host = f"[{host}]" if ":" in host else host
        return ApiClient(f"http://{host}:{port}", timeout=self._timeout, transport=self._transport)

    def _path(self, path: str) -> str:
        if self.asked is None or not path.startswith(_BELOW):
            return path
        return f"{_BELOW}nodes/{quote(self.asked, safe='@')}/{path.removeprefix(_BELOW)}"

    def _lines(self, path: str, params: Mapping[str, str | float | bool], patience: float) -> Iterator[str]:
        import httpx

        begun = False
        try:
            timeout = httpx.Timeout(self._timeout, read=patience)
            with self._http.stream("GET", self._path(path), params=dict(params), timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    self._decoded(answer)
                begun = True
                yield from _lines_of(answer.iter_bytes())
        except (httpx.TransportError, httpx.InvalidURL) as error:
            if begun:
                raise BrokeOffError(url=self.url, reason=reason_of(error)) from error
            raise NodeUnreachableError(url=self.url, reason=reason_of(error)) from error

    def _request(self, method: str, path: str, **options: Any) -> Any:
        return self._decoded(self._answer(method, path, **options))

    def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        import httpx

        try:
            answer = self._http.request(method, self._path(path), **options)
        except httpx.UnsupportedProtocol as error:
            raise BadUrlError(got=self.url, problem=str(error)) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise NodeUnreachableError(url=self.url, reason=reason_of(error)) from error
        if not answer.is_success:
            self._decoded(answer)
        return answer

    def _decoded(self, answer: httpx.Response) -> Any:
        try:
            body = json.loads(answer.content, object_hook=Answer)
        except ValueError:
            raise bad_answer(answer, self.url) from None
        if answer.is_success:
            return body
        if (
            answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
            and isinstance(body, dict)
            and "ready" in body
        ):
            # /ready answers with what is missing.
            return body
        error = error_of(answer, body, self.url)
        if self.asked is not None and isinstance(error, RefusedError) and "node: got" in str(error):
            with ApiClient(self.url, timeout=self._timeout, transport=self._transport) as here:
                raise _no_such_node(self.asked, here.rows("/api/v1/nodes"))
        raise error

    def _object(self, path: str, line: str) -> dict[str, Any]:
        try:
            found = json.loads(line, object_hook=Answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._odd(path, found, "an object a line")
        return found

    def _odd(self, path: str, found: object, expected: str) -> BadAnswerError:
        return BadAnswerError(
            f"{self.url}{path}: got {type(found).__name__}, expected {expected} of a gossamer node; "
            "check --api"
        )


def _lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """At line feeds alone: names of clients may hold every other end of a line that Unicode knows."""
    kept = bytearray()
    for piece in pieces:
        kept += piece
        if b"\n" in piece:
            *whole, rest = kept.split(b"\n")
            kept = bytearray(rest)
            for line in whole:
                yield line.rstrip(b"\r").decode("utf-8", "replace")
    if kept:
        yield kept.decode("utf-8", "replace")


def _no_such_node(name: str, rows: list[dict[str, Any]]) -> UnknownNameError:
    known = sorted(str(row["name"]) for row in rows)
    return UnknownNameError(kind="node", name=name, known=known, see="gossamer nodes")


def whole(url: str) -> str:
    """``:8091`` and ``host:8091`` are addresses, too."""
    if "://" in url:
        return url
    if url.strip(":").isdecimal():
        return f"http://127.0.0.1:{url.strip(':')}"
    return f"http://{url}"


def trusted() -> ssl.SSLContext:
    """Whose certificates count: GOSSAMER_CACERT's, or those of this system."""
    path = os.environ.get("GOSSAMER_CACERT")
    try:
        return ssl.create_default_context(cafile=path or None)
    except OSError as error:
        raise CertificateFileError(path=path or "", problem=str(error)) from error


def credentials() -> dict[str, str]:
    """From the environment, not the command line, where others see it."""
    token = os.environ.get("GOSSAMER_TOKEN", "").strip()
    path = os.environ.get("GOSSAMER_TOKEN_FILE")
    if not token and path:
        try:
            token = Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileError(path=path, problem=str(error)) from error
    if not token.isascii() or not token.isprintable():
        raise TokenFileError(path="GOSSAMER_TOKEN", problem="holds what is no token")
    return {"authorization": f"Bearer {token}"} if token else {}
