"""The ``k8s`` strategy: the EndpointSlices of a headless service are the members.

Rules: 1. Token and authority are read again for each request, since Kubernetes rotates both.  2. A pod that
is not ready yet counts, for a starting node is not ready before it has joined; one that is terminating does
not.  3. An answer that is not 200, not JSON or not a list of slices is a problem that names what an operator
can do, and keeps the addresses of the last good answer; a service without endpoints is a problem too, since
this very pod should be one.  4. An answer is quoted nowhere, as it may differ with each try.  5. Pages and
answers are bounded.

Rejected: the official client, which is a hundred times the size of the one request that is needed; a watch,
which costs the API server a connection for each node and finds nobody sooner than gossip does.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import httpx
from msgspec import Meta, MsgspecError, Raw, Struct, field
from msgspec.json import decode

from gossamer.config.discovery import K8sConfig
from gossamer.discovery.strategy import (
    Discovered,
    DiscoveryFailedError,
    Hosts,
    Resolver,
    Strategy,
    is_literal,
    resolve_host,
)
from gossamer.network import Address

_PAGE = 100
_MAX_PAGES = 20
_MAX_ANSWER = 32 * 1024**2
"""Bytes of all pages together."""
_SUFFIXES = {"dns": "pod.cluster.local", "hostname": "svc.cluster.local"}


@dataclass(frozen=True, slots=True)
class _Credentials:
    token: str
    authority: str
    namespace: str


class _Port(Struct):
    name: str | None = None
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None


class _Conditions(Struct):
    terminating: bool | None = None


class _Endpoint(Struct):
    addresses: list[str] = []
    hostname: str | None = None
    conditions: _Conditions | None = None


class _Slice(Struct):
    """An EndpointSlice of ``discovery.k8s.io/v1``, as far as it is read."""

    ports: list[Raw] | None = None
    endpoints: list[Raw] | None = None


class _Metadata(Struct):
    further: str = field(name="continue", default="")


class _Page(Struct):
    items: list[Raw]
    metadata: _Metadata = field(default_factory=_Metadata)


Shape = TypeVar("Shape", bound=Struct)


def _well_formed(entries: list[Raw] | None, shape: type[Shape]) -> Iterator[Shape]:
    """Yield the entries that have the shape; invalid ones are skipped."""
    for entry in entries or ():
        with suppress(MsgspecError):
            yield decode(entry, type=shape)


class K8s(Strategy):
    """Kubernetes strategy. ``environ`` has the API server's address; ``transport`` None: the network."""

    name = "k8s"

    def __init__(
        self,
        config: K8sConfig,
        *,
        environ: Mapping[str, str] | None = None,
        resolve: Resolver = resolve_host,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._config = config
        self._url = config.apiserver.rstrip("/") or _own_apiserver(os.environ if environ is None else environ)
        self._hosts = Hosts(resolve)
        self._transport = transport
        self._known: tuple[Address, ...] = ()
        self._trust: tuple[str, ssl.SSLContext] | None = None

    async def discover(self, local: Address) -> Discovered:
        try:
            credentials = await asyncio.to_thread(_read, self._config.credentials)
            namespace = self._config.namespace or credentials.namespace or "default"
            slices = await self._slices(credentials, namespace)
            hosts = list(dict.fromkeys(self._pods(slices, namespace, local[1])))
            if not hosts:
                raise DiscoveryFailedError(
                    self._config.service_name,
                    f"the service has no endpoints in namespace {namespace}; is service_name right, does its "
                    "selector match this pod, has it publishNotReadyAddresses: true?",
                )
        except DiscoveryFailedError as error:
            return Discovered(self._known, {error.where: error.problem})
        found = await self._hosts.look(hosts)
        self._known = found.addresses
        return found

    # -- the one request

    async def _slices(self, credentials: _Credentials, namespace: str) -> list[_Slice]:
        url = f"{self._url}/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        query = {
            "labelSelector": f"kubernetes.io/service-name={self._config.service_name}",
            "limit": str(_PAGE),
        }
        headers = {"Accept": "application/json"}
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        items: list[_Slice] = []
        left = _MAX_ANSWER
        try:
            async with asyncio.timeout(self._config.timeout), self._client(credentials.authority) as client:
                for _ in range(_MAX_PAGES):
                    async with client.stream("GET", url, params=query, headers=headers) as response:
                        if response.status_code != httpx.codes.OK:
                            raise DiscoveryFailedError(self._url, _refusal(response.status_code, namespace))
                        body = await self._body(response, left)
                    left -= len(body)
                    page = decode(body, type=_Page)
                    items += _well_formed(page.items, _Slice)
                    if not page.metadata.further:
                        break
                    query["continue"] = page.metadata.further
        except TimeoutError:
            problem = f"the API server did not answer within {self._config.timeout:g} s"
            raise DiscoveryFailedError(self._url, problem) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            problem = f"the API server cannot be asked: {_reason(error)}"
            raise DiscoveryFailedError(self._url, problem) from None
        except (MsgspecError, RecursionError) as error:
            problem = f"the answer is no list of EndpointSlices ({error}); is apiserver right?"
            raise DiscoveryFailedError(self._url, problem) from None
        return items

    async def _body(self, response: httpx.Response, limit: int) -> bytes:
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > limit:
                raise DiscoveryFailedError(self._url, f"the answer is larger than {_MAX_ANSWER} bytes")
        return bytes(body)

    def _client(self, authority: str) -> httpx.AsyncClient:
        # trust_env off: a proxy of the environment must not see the token. Time is limited around all pages,
        # so that a request that takes too long always fails with the same words.
        return httpx.AsyncClient(
            verify=self._context(authority),
            timeout=self._config.timeout * 2,
            trust_env=False,
            transport=self._transport,
        )

    def _context(self, authority: str) -> ssl.SSLContext:
        if self._trust is None or self._trust[0] != authority:
            try:
                # Bundles have names in UTF-8 between their certificates, which the context does not take.
                context = ssl.create_default_context(
                    cadata=authority.encode("ascii", "ignore").decode() or None
                )
            except (ssl.SSLError, ValueError):
                where = str(self._config.credentials / "ca.crt")
                raise DiscoveryFailedError(where, "holds no certificates in PEM") from None
            self._trust = (authority, context)
        return self._trust[1]

    # -- from slices to addresses

    def _pods(self, slices: list[_Slice], namespace: str, own_port: int) -> Iterator[Address]:
        """Hosts and ports."""
        for one in slices:
            ports = _well_formed(one.ports, _Port)
            named = (port.port for port in ports if port.name == self._config.port_name)
            port = next(named, None) or own_port
            for endpoint in _well_formed(one.endpoints, _Endpoint):
                if endpoint.conditions is None or not endpoint.conditions.terminating:
                    for host in self._names(endpoint, namespace):
                        yield host, port

    def _names(self, endpoint: _Endpoint, namespace: str) -> Iterator[str]:
        kind = self._config.address_type
        suffix = self._config.suffix or _SUFFIXES.get(kind, "")
        if kind == "hostname":
            if endpoint.hostname:
                yield f"{endpoint.hostname}.{self._config.service_name}.{namespace}.{suffix}"
            return
        for address in filter(is_literal, endpoint.addresses):
            yield address if kind == "ip" else f"{re.sub('[.:]', '-', address)}.{namespace}.{suffix}"


def _own_apiserver(environ: Mapping[str, str]) -> str:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return "https://kubernetes.default.svc"
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _read(directory: Path) -> _Credentials:
    """Read what Kubernetes mounts into a pod. Blocks. A missing file is blank: a proxy may need none."""

    def text(name: str) -> str:
        try:
            return (directory / name).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read: {getattr(error, 'strerror', None) or 'not text'}"
            raise DiscoveryFailedError(str(directory / name), problem) from None

    token = text("token")
    if not re.fullmatch(r"[!-~]*", token):
        # It would be refused as a header, in words that quote it.
        raise DiscoveryFailedError(str(directory / "token"), "holds more than one token")
    namespace = text("namespace")
    if not re.fullmatch(r"[a-z0-9-]*", namespace):
        raise DiscoveryFailedError(str(directory / "namespace"), "holds no name of a namespace")
    return _Credentials(token, text("ca.crt"), namespace)


def _reason(error: Exception) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        problem = text.partition("certificate verify failed: ")[2].partition(" (")[0]
        return f"its certificate is not one that ca.crt vouches for ({problem})"
    if "[SSL" in text:
        return "it does not speak TLS as it should"
    if isinstance(error, (httpx.ConnectError, OSError)):
        return "nothing answers there"
    if isinstance(error, (httpx.RemoteProtocolError, httpx.NetworkError, httpx.DecodingError)):
        return "it broke off, or does not speak HTTP"
    return f"{type(error).__name__}; is apiserver right?"


_REFUSALS = {
    401: "the service-account token is missing or not valid; is it mounted into this pod?",
    403: "the service account may not list endpointslices in namespace {namespace}; "
    "give it a Role with verb list on endpointslices of discovery.k8s.io",
    404: "there is no discovery.k8s.io/v1 there; Kubernetes 1.21 or newer is needed",
    410: "the list changed while it was read",
    429: "the API server has too much to do",
}


def _refusal(status: int, namespace: str) -> str:
    words = _REFUSALS.get(status, "expected 200; is apiserver the URL of Kubernetes?")
    if status >= 500:
        words = "the API server is not well"
    return f"{status}, {words.format(namespace=namespace)}"
