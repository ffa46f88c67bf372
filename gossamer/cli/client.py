"""The command's side of the HTTP API: ask one node, or through it any other, or all of them.

Rules: 1. Every request is bounded in time.  2. An answer that is a problem becomes an error of the one tree,
with the node's own words.  3. Asking all nodes gives what there is and names who did not answer.  4. Another
node is asked through the one at hand, over the links of the cluster: its own API need not be open to us.  5.
A path is below ``/api/v1/`` unless it begins with a slash.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from gossamer.cli.errors import (
    Answer,
    BadAnswerError,
    BrokeOffError,
    FileError,
    NodeUnreachableError,
    NotNowError,
    OptionError,
    RefusedError,
    UnknownNameError,
    bad_answer,
    error_of,
    reason_of,
)
from gossamer.errors import GossamerError, WrongValueError

if TYPE_CHECKING:
    import httpx

DEFAULT_API = "http://127.0.0.1:8091"
TIMEOUT = 10.0
_PAGE = 5000
_BELOW = "/api/v1/"

Row = dict[str, Any]
"""An object of JSON."""
Params = Mapping[str, str | float | bool | None]
"""Parameters of a query; None is left out."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The answers of several nodes, and the silent ones, known once the items are read."""

    items: Iterable[Row]
    missing: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.items)


class ApiClient:
    """One node's API; with ``node`` that of another node, through the one at ``url``."""

    def __init__(
        self,
        url: str,
        *,
        node: str | None = None,
        timeout: float = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # Here and below, so that the rest of the command starts without loading it.
        import httpx

        self.url = full_url(url)
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
            raise _bad_url(url, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def answer(self, path: str, params: Params | None = None) -> object:
        """The answer to a GET, decoded."""
        return self._request("GET", path, params=_given(params))

    def document(self, path: str, params: Params | None = None) -> Row:
        """The answer to a GET that is one object."""
        return self._object(path, self.answer(path, params))

    def rows(self, path: str, params: Params | None = None) -> list[Row]:
        """The answer to a GET that is a list."""
        found = self.answer(path, params)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise self._odd(path, found, "a list of objects")
        return found

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Row:
        """The answer to a POST, which is one object."""
        return self._object(path, self._request("POST", path, json=dict(body or {})))

    def put(self, path: str, body: Mapping[str, object]) -> Row:
        """The answer to a PUT, which is one object."""
        return self._object(path, self._request("PUT", path, json=dict(body)))

    def delete(self, path: str, params: Params | None = None) -> Row:
        """The answer to a DELETE, which is one object."""
        return self._object(path, self._request("DELETE", path, params=_given(params)))

    def page(self, path: str) -> bytes:
        """The answer to a GET that is a page for a browser."""
        return self._answer("GET", path).content

    def pages(self, path: str, params: Params | None = None, *, limit: int | None = None) -> Iterator[Row]:
        """Every item of a long list that each node has whole, or the first ``limit``."""
        return islice(self._pages(path, {"limit": min(limit or _PAGE, _PAGE), **(params or {})}), limit)

    def _pages(self, path: str, wanted: dict[str, str | float | bool | None]) -> Iterator[Row]:
        while True:
            page = self.document(path, wanted)
            yield from page["items"]
            if page["next"] is None:
                return
            wanted["after"] = page["next"]

    def listed(self, path: str, params: Params | None = None, *, limit: int | None = None) -> Gathered:
        """A long list of all nodes, or of the one that is meant, ``limit`` items of it at most."""
        wanted = {**(params or {}), "format": "ndjson", **({"scope": "node"} if self.asked else {})}
        missing: dict[str, str] = {}

        def items() -> Iterator[Row]:
            for line in self.stream(path, wanted, silence=self._timeout):
                if line.keys() == {"missing"}:
                    missing.update(line["missing"])
                else:
                    yield line

        return Gathered(islice(items(), limit), missing)

    def stream(self, path: str, params: Params, *, silence: float) -> Iterator[Row]:
        """The lines of an answer as they come, ``silence`` seconds between two at most, empty ones too."""
        for line in self._lines(path, params, silence):
            if line:
                yield self._parsed(path, line)

    def events(self, path: str, *, silence: float) -> Iterator[Row]:
        """The data of server-sent events as they come."""
        for line in self._lines(path, {}, silence):
            if line.startswith("data: "):
                yield self._parsed(path, line.removeprefix("data: "))

    def node(self, name: str) -> ApiClient:
        """The API of the node called ``name``, asked through this one."""
        return ApiClient(self.url, node=name, timeout=self._timeout, transport=self._transport)

    def _through(self, row: Row) -> ApiClient:
        _check_up(row)
        return self.node(row["name"])

    def direct(self, row: Row) -> ApiClient:
        """The API of a node at its own address, as the ``row`` of ``nodes`` has it."""
        _check_up(row)
        port = row["ports"].get("api")
        if not port:
            raise NotNowError(f"{row['name']} serves no API, or not yet (is api.enable off there?)")
        host = row["address"].rpartition(":")[0].strip("[]")
        host = f"[{host}]" if ":" in host else host
        scheme = self.url.partition("://")[0]
        return ApiClient(f"{scheme}://{host}:{port}", timeout=self._timeout, transport=self._transport)

    def each(
        self,
        ask: Callable[[ApiClient], Row | list[Row]],
        *,
        node: str | None = None,
        reach: Callable[[Row], ApiClient] | None = None,
        to_the_end: bool = False,
    ) -> Gathered:
        """Call ``ask`` for every node that is not gone, or for ``node``; each item has its ``node``.

        Others are asked through this one, unless ``reach`` has another way to the node of a row. What the
        node at hand refuses is refused; with ``to_the_end`` only if no node would take it.
        """
        items: list[Row] = []
        missing: dict[str, str] = {}
        rows = self.rows("nodes")
        if node is not None and node not in [row["name"] for row in rows]:
            raise _no_such_node(node, rows)
        for row in by_name(rows):
            name = row["name"]
            if node not in (None, name) or row["status"] == "left":
                continue
            try:
                if row["link"] == "self":
                    found = ask(self)
                else:
                    with (reach or self._through)(row) as peer:
                        found = ask(peer)
            except GossamerError as error:
                goes_on = to_the_end and not isinstance(error, WrongValueError)
                if (row["link"] == "self" and not goes_on) or getattr(error, "url", None) == self.url:
                    raise
                missing[name] = str(error)
            else:
                items += [Answer(one, node=name) for one in (found if isinstance(found, list) else [found])]
        return Gathered(items, missing)

    def _path(self, path: str) -> str:
        if path.startswith("/") and not path.startswith(_BELOW):
            return path
        below = path.removeprefix(_BELOW)
        return _BELOW + (below if self.asked is None else f"nodes/{quote(self.asked, safe='@')}/{below}")

    def _lines(self, path: str, params: Params, silence: float) -> Iterator[str]:
        import httpx

        begun = False
        try:
            timeout = httpx.Timeout(self._timeout, read=silence)
            with self._http.stream("GET", self._path(path), params=_given(params), timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    self._decoded(answer)
                begun = True
                yield from _lines_of(answer.iter_bytes())
        except (httpx.TransportError, httpx.InvalidURL) as error:
            if begun:
                raise BrokeOffError(url=self.url, reason=reason_of(error)) from error
            raise NodeUnreachableError(url=self.url, reason=reason_of(error)) from error

    def _request(self, method: str, path: str, **options: object) -> object:
        return self._decoded(self._answer(method, path, **options))

    def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        import httpx

        try:
            answer = self._http.request(method, self._path(path), **options)
        except httpx.UnsupportedProtocol as error:
            raise _bad_url(self.url, error) from error
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
        error = error_of(answer, body, self.url)
        if self.asked is not None and isinstance(error, RefusedError) and "node: got" in str(error):
            with ApiClient(self.url, timeout=self._timeout, transport=self._transport) as here:
                raise _no_such_node(self.asked, here.rows("nodes"))
        raise error

    def _parsed(self, path: str, line: str) -> Row:
        try:
            found = json.loads(line, object_hook=Answer)
        except ValueError:
            found = None
        return self._object(path, found)

    def _object(self, path: str, found: object) -> Row:
        if not isinstance(found, dict):
            raise self._odd(path, found, "an object")
        return found

    def _odd(self, path: str, found: object, expected: str) -> BadAnswerError:
        return BadAnswerError(
            f"{self.url}{self._path(path)}: got {type(found).__name__}, expected {expected} of a gossamer "
            "node; check --api"
        )


def by_name(rows: Iterable[Row]) -> list[Row]:
    """``rows`` of nodes in the order of their names."""
    return sorted(rows, key=lambda row: str(row["name"]))


def _check_up(row: Row) -> None:
    if row["status"] in ("offline", "stopped"):
        raise NotNowError(f"it is {row['status']}")


def _given(params: Params | None) -> dict[str, str | float | bool] | None:
    # For none at all httpx leaves the query of the path as it is; an empty one takes its place.
    return {name: value for name, value in (params or {}).items() if value is not None} or None


def _bad_url(got: str, problem: Exception) -> OptionError:
    return OptionError("--api", got=got, expected=f"a URL such as http://10.0.0.1:8091 ({problem})")


def _lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """Split only at line feeds: names of clients may contain all other line ends of Unicode."""
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


def _no_such_node(name: str, rows: list[Row]) -> UnknownNameError:
    known = sorted(str(row["name"]) for row in rows)
    return UnknownNameError(kind="node", name=name, known=known, see="gossamer nodes")


def full_url(url: str) -> str:
    """``:8091``, ``host:8091`` and what ends with a slash are addresses, too."""
    if "://" in url:
        return url.rstrip("/")
    if url.strip(":").isdecimal():
        return f"http://127.0.0.1:{url.strip(':')}"
    return f"http://{url.rstrip('/')}"


def trusted() -> ssl.SSLContext:
    """Whose certificates count: GOSSAMER_CACERT's, or those of this system."""
    path = os.environ.get("GOSSAMER_CACERT")
    try:
        return ssl.create_default_context(cafile=path or None)
    except OSError as error:
        raise FileError(
            f"GOSSAMER_CACERT: {path}", error, advice="expected a file of certificates (PEM)"
        ) from error


_EXPECTED = "expected what `gossamer tokens create` printed"


def credentials() -> dict[str, str]:
    """Return the headers with the token from the environment; a command line would be visible to others."""
    token = os.environ.get("GOSSAMER_TOKEN", "").strip()
    path = os.environ.get("GOSSAMER_TOKEN_FILE")
    if not token and path:
        try:
            token = Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(path, error, advice=_EXPECTED) from error
    if not token.isascii() or not token.isprintable():
        raise FileError("GOSSAMER_TOKEN", "holds what is no token", advice=_EXPECTED)
    return {"authorization": f"Bearer {token}"} if token else {}
