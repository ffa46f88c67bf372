"""An API server on loopback: HTTPS with an authority of its own, answers in the shapes of Kubernetes."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from certs import Authority

PATH = "/apis/discovery.k8s.io/v1/namespaces/mqtt/endpointslices"
SELECTOR = "kubernetes.io/service-name=gossamer"

Answer = tuple[int, bytes]
Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


def pod(address: str, name: str, *, ready: bool = True, terminating: bool = False) -> dict[str, Any]:
    """An endpoint as the endpointslice controller of Kubernetes 1.29 writes it for a StatefulSet."""
    return {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": ready, "terminating": terminating},
        "hostname": name,
        "nodeName": "worker-1",
        "targetRef": {
            "kind": "Pod",
            "name": name,
            "namespace": "mqtt",
            "uid": "0c9d1b7e-5d6c-4f1e-9d3b-6a3d6a1f0e11",
        },
        "zone": "eu-west-1a",
    }


def slice_of(
    *endpoints: dict[str, Any], name: str = "gossamer-7kx2p", kind: str = "IPv4", port: int | None = 7946
) -> dict[str, Any]:
    """An EndpointSlice; without endpoints as the controller leaves it, with nulls."""
    ports = [
        {"name": "mqtt", "port": 1883, "protocol": "TCP"},
        {"name": "gossip", "port": port, "protocol": "UDP"},
    ]
    return {
        "metadata": {
            "name": name,
            "generateName": "gossamer-",
            "namespace": "mqtt",
            "uid": "6a6b9b6c-7a34-4f4e-8d4a-08a0e0c9a5a7",
            "resourceVersion": "81773",
            "generation": 4,
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": "gossamer",
                "service.kubernetes.io/headless": "",
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Service", "name": "gossamer", "controller": True}
            ],
        },
        "addressType": kind,
        "endpoints": list(endpoints) or None,
        "ports": ports if endpoints and port else None,
    }


def listing(*slices: dict[str, Any], further: str = "") -> bytes:
    """The answer to a list request; a page of it where there is ``further``."""
    metadata: dict[str, Any] = {"resourceVersion": "81801"}
    if further:
        metadata |= {"continue": further, "remainingItemCount": 1}
    return json.dumps(
        {
            "kind": "EndpointSliceList",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": metadata,
            "items": list(slices),
        }
    ).encode()


def status(code: int, reason: str, message: str) -> bytes:
    """What a refusal looks like."""
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
    ).encode()


class ApiServer:
    """Lists ``slices`` to whoever has the token; ``answer`` or ``behave`` set: that instead, for all."""

    def __init__(self, directory: Path, authority: Authority | None = None) -> None:
        self.directory = directory
        self.authority = authority or Authority(directory, "kubernetes")
        self.token = "token-1"
        self.slices: list[dict[str, Any]] = []
        self.pages = 1
        self.answer: Answer | None = None
        self.behave: Behaviour | None = None
        self.asked: list[str] = []
        """Why each request was wrong; blank: it was right."""
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self, *hosts: str) -> None:
        """Listen, at the same port as before."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.issue("apiserver", *(hosts or ("127.0.0.1",))))
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                if self.behave is not None:
                    await self.behave(writer)
                    return
                code, body = self._answered(head)
                writer.write(
                    f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\n"
                    f"Audit-Id: 9f0b\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    def _answered(self, head: str) -> Answer:
        line, *rest = head.splitlines()
        method, target, _ = line.split()
        headers = {name.lower(): value.strip() for name, _, value in (h.partition(":") for h in rest if h)}
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        if self.answer is not None:
            self.asked.append("")
            return self.answer
        if headers.get("authorization") != f"Bearer {self.token}":
            self.asked.append("unauthorized")
            return 401, status(401, "Unauthorized", "Unauthorized")
        if (method, parts.path, query.get("labelSelector")) != ("GET", PATH, [SELECTOR]):
            self.asked.append(target)
            return 404, status(404, "NotFound", "the server could not find the requested resource")
        self.asked.append("")
        if self.pages == 1:
            return 200, listing(*self.slices)
        page = int(query.get("continue", ["0"])[0])
        further = str(page + 1) if page + 1 < self.pages else ""
        return 200, listing(*self.slices[page :: self.pages], further=further)
