"""The command's side of the HTTP API: ask one node, or every node of its cluster.

Rules: 1. Every request is bounded in time.  2. An answer that is a problem becomes an error of the one tree,
with the node's own words.  3. Asking all nodes gives what there is and names who did not answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from gossamer.errors import GossamerError, TransportError, UnavailableError, UsageError

__all__ = ["DEFAULT_API", "ApiClient", "Gathered", "NodeUnreachableError"]

DEFAULT_API = "http://127.0.0.1:8091"
_PAGE = 5000


class NodeUnreachableError(TransportError):
    """No node answers at an API address."""

    def __init__(self, *, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(
            f"no node answers at {url}: {reason}; start one with `gossamer up`, or name another with --api"
        )


class RefusedError(UsageError):
    """The node says that the request is wrong."""


class NotNowError(UnavailableError):
    """The node says that it cannot do this now."""


class BadAnswerError(TransportError):
    """What answers is not a gossamer node, or not a healthy one."""


class BrokeOffError(TransportError):
    """A node stopped in the middle of an answer."""

    def __init__(self, *, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"the node at {url} broke off: {reason}; see its log, and `gossamer nodes`")


class TokenFileError(UsageError):
    """The token of the environment cannot be read."""

    def __init__(self, *, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}; expected what `gossamer tokens create` printed")


class UnknownNodeError(UsageError):
    """No member has this name."""

    def __init__(self, *, name: str, known: list[str]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"node: got {name}, expected one of {', '.join(known) or 'none'}")


@dataclass(slots=True)
class Gathered:
    """What several nodes answered, and who did not."""

    items: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


class ApiClient:
    """One node's API."""

    def __init__(
        self, url: str, *, timeout: float = 10.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = url if "://" in url else f"http://{url}"
        self._timeout = timeout
        self._transport = transport
        try:
            # trust_env off: a proxy of the environment has no business between this machine and itself.
            self._http = httpx.Client(
                base_url=self.url,
                timeout=timeout,
                headers=_credentials(),
                transport=transport,
                trust_env=False,
                follow_redirects=False,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise NodeUnreachableError(url=url, reason=f"not a URL ({error})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, str | int | bool] | None = None) -> Any:
        """The answer to a GET, decoded."""
        return self._request("GET", path, params=dict(params or {}))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a POST, decoded."""
        return self._request("POST", path, json=dict(body or {}))

    def delete(self, path: str) -> Any:
        """The answer to a DELETE, decoded."""
        return self._request("DELETE", path)

    def pages(
        self, path: str, params: Mapping[str, str | int | bool] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Every item of a long list."""
        wanted: dict[str, str | int | bool] = {"limit": _PAGE, **(params or {})}
        while True:
            page = self.get(path, wanted)
            yield from page["items"]
            if page["next"] is None:
                return
            wanted["after"] = page["next"]

    def listed(
        self, path: str, params: Mapping[str, str | int | bool], *, limit: int | None = None
    ) -> Gathered:
        """A long list of all nodes, ``limit`` items of it at most, and who did not answer."""
        gathered = Gathered()
        for line in self.stream(path, {**params, "format": "ndjson"}, patience=self._timeout):
            if "missing" in line and len(line) == 1:
                gathered.missing = line["missing"]
            elif limit is None or len(gathered.items) < limit:
                gathered.items.append(line)
            else:
                break
        return gathered

    def stream(
        self, path: str, params: Mapping[str, str | float | bool], *, patience: float
    ) -> Iterator[dict[str, Any]]:
        """The lines of an answer as they come, ``patience`` seconds between two at most, empty ones too."""
        for line in self._lines(path, params, patience):
            if line:
                yield json.loads(line)

    def events(self, path: str, *, patience: float) -> Iterator[dict[str, Any]]:
        """The data of server-sent events as they come."""
        for line in self._lines(path, {}, patience):
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))

    def _lines(self, path: str, params: Mapping[str, str | float | bool], patience: float) -> Iterator[str]:
        begun = False
        try:
            timeout = httpx.Timeout(self._timeout, read=patience)
            with self._http.stream("GET", path, params=dict(params), timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    self._decoded(answer)
                begun = True
                yield from answer.iter_lines()
        except httpx.TransportError as error:
            if begun:
                raise BrokeOffError(url=self.url, reason=_reason(error)) from error
            raise NodeUnreachableError(url=self.url, reason=_reason(error)) from error

    def node(self, name: str) -> ApiClient:
        """The API of the node called ``name``, as this node knows it."""
        nodes = self.get("/api/v1/nodes")
        for row in nodes:
            if row["name"] == name:
                return self._of(row)
        raise UnknownNodeError(name=name, known=[row["name"] for row in nodes])

    def gather(self, path: str, params: Mapping[str, str | int | bool] | None = None) -> Gathered:
        """Every item of a long list on every node that is not gone, each with the ``node`` it came from."""
        gathered = Gathered()
        for row in self.get("/api/v1/nodes"):
            if row["status"] == "left":
                continue
            name = row["name"]
            if row["status"] == "offline":
                gathered.missing[name] = "it is offline"
                continue
            try:
                if row["link"] == "self":
                    items = list(self.pages(path, params))
                else:
                    with self._of(row) as peer:
                        items = list(peer.pages(path, params))
            except GossamerError as error:
                gathered.missing[name] = str(error)
            else:
                gathered.items += [{**item, "node": name} for item in items]
        return gathered

    def post_all(self, path: str, body: Mapping[str, Any], *, node: str | None = None) -> Gathered:
        """The answer of every node that is not gone to the same POST, or of ``node`` alone."""
        gathered = Gathered()
        rows = self.get("/api/v1/nodes")
        if node is not None:
            rows = [row for row in rows if row["name"] == node]
            if not rows:
                raise UnknownNodeError(name=node, known=[row["name"] for row in self.get("/api/v1/nodes")])
        for row in rows:
            if row["status"] == "left":
                continue
            if row["status"] == "offline":
                gathered.missing[row["name"]] = "it is offline"
                continue
            try:
                if row["link"] == "self":
                    gathered.items.append(self.post(path, body))
                else:
                    with self._of(row) as peer:
                        gathered.items.append(peer.post(path, body))
            except GossamerError as error:
                gathered.missing[row["name"]] = str(error)
        return gathered

    def _of(self, row: Mapping[str, Any]) -> ApiClient:
        port = row["ports"].get("api")
        if not port:
            raise NotNowError(f"{row['name']} serves no API (api.enable is off there)")
        host = row["address"].rpartition(":")[0].strip("[]")
        host = f"[{host}]" if ":" in host else host
        return ApiClient(f"http://{host}:{port}", timeout=self._timeout, transport=self._transport)

    def _request(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._http.request(method, path, **options)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise NodeUnreachableError(url=self.url, reason=_reason(error)) from error
        return self._decoded(answer)

    def _decoded(self, answer: httpx.Response) -> Any:
        try:
            body = answer.json()
        except ValueError:
            raise self._bad_answer(answer) from None
        if answer.is_success:
            return body
        if not isinstance(body, dict) or "detail" not in body:
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and isinstance(body, dict):
                # /ready answers with what is missing.
                return body
            raise self._bad_answer(answer)
        detail = str(body["detail"])
        if answer.is_client_error:
            raise RefusedError(detail)
        if answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
            raise BadAnswerError(f"{self.url}: {detail}")
        raise NotNowError(detail)

    def _bad_answer(self, answer: httpx.Response) -> BadAnswerError:
        return BadAnswerError(
            f"{self.url}{answer.request.url.path}: got HTTP {answer.status_code}, expected JSON of a "
            "gossamer node; check --api, and the node's log"
        )


def _credentials() -> dict[str, str]:
    """From the environment, not the command line, where others see it."""
    token = os.environ.get("GOSSAMER_TOKEN", "").strip()
    path = os.environ.get("GOSSAMER_TOKEN_FILE")
    if not token and path:
        try:
            token = Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileError(path=path, problem=str(error)) from error
    if not token.isascii():
        raise TokenFileError(path="GOSSAMER_TOKEN", problem="holds what is no token")
    return {"authorization": f"Bearer {token}"} if token else {}


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectTimeout | httpx.ReadTimeout):
        return "no answer in time"
    if isinstance(error, httpx.ConnectError):
        return "nothing listens there" if "refused" in str(error).lower() else str(error)
    return str(error) or type(error).__name__
