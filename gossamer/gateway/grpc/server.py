"""The gRPC server as a process of the node: services by their descriptors, health and reflection.

Rules: 1. What a call may cost before its caller is known is bounded: bytes of a request, calls at once,
streams of a connection.  2. An error of ours ends its call with a status and a text that says what to do; any
other is gRPC's to log.  3. However the process ends, its port closes and its calls are gone.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import structlog

from gossamer.api import Callers
from gossamer.api.model.cluster import NodeStatus
from gossamer.config import GrpcConfig, TlsHostConfig
from gossamer.errors import GossamerError
from gossamer.files import FileError
from gossamer.gateway.grpc import gossamer_pb2 as wire
from gossamer.gateway.grpc import standard_pb2 as standard
from gossamer.gateway.grpc.callers import CallerCheck, code_of
from gossamer.gateway.grpc.messages import Context, MessageService
from gossamer.gateway.grpc.queues import QueueService
from gossamer.mqtt import Broker
from gossamer.supervisor import GenServer, Reply, StopInit, trap_exit

log = structlog.get_logger(__name__)

GRACE = 1.0
"""Seconds that calls under way get when the server stops."""
MOST_CALLS = 256
LONGEST_REQUEST = 1024 * 1024
HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_OPTIONS = [
    ("grpc.max_receive_message_length", LONGEST_REQUEST),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.max_allowed_incoming_connections", 256),
    ("grpc.max_metadata_size", 8192),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
]
_SERVING = 1


class ServerCertificates:
    """Certificate of the gRPC server, read again when its files change."""

    def __init__(self, config: TlsHostConfig) -> None:
        self._config = config
        self.load()

    def files(self) -> Iterator[Path]:
        """Files that are read."""
        yield self._config.cert_file
        yield self._config.key_file

    def load(self) -> None:
        """Read the files; for handshakes to come. Raises FileError: one cannot be used; nothing changed."""
        file = self._config.cert_file
        try:
            certificate = file.read_bytes()
            file = self._config.key_file
            pair = file.read_bytes(), certificate
        except OSError as error:
            raise FileError(file, error, expected="PEM", of="gRPC") from None
        self._shown = grpc.ssl_server_certificate_configuration([pair])

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that follow the files."""
        return grpc.dynamic_ssl_server_credentials(self._shown, lambda: self._shown)


class ClusterService:
    """Implements ``gossamer.v1.Cluster``."""

    def __init__(self, status: Callable[[], NodeStatus], check: CallerCheck) -> None:
        self._status = status
        self._check = check

    async def status(self, request: wire.StatusRequest, context: Context) -> wire.StatusReply:
        """Return the nodes as this one sees them."""
        (await self._check.of(context)).may_look()
        seen = self._status()
        nodes = [
            wire.NodeStatus(name=one.name, status=one.status, address=f"{one.address}:{one.port}")
            for one in seen.members
        ]
        return wire.StatusReply(node=seen.name, version=seen.version, state=seen.state, nodes=nodes)


class GrpcServer(GenServer):
    """Serves programs of any language; a call with ``"address"`` gives where it listens."""

    async def init(
        self,
        broker: Broker,
        *,
        config: GrpcConfig,
        callers: Callers,
        status: Callable[[], NodeStatus],
        certificates: ServerCertificates | None = None,
    ) -> None:
        trap_exit(True)
        self._status = status
        check = CallerCheck(broker, callers)
        services = {
            "Messages": MessageService(broker, check),
            "Queues": QueueService(broker.queues, check),
            "Cluster": ClusterService(status, check),
        }
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
        described = wire.DESCRIPTOR.services_by_name
        handlers = [_handlers(described[name], service) for name, service in services.items()]
        server.add_generic_rpc_handlers((*handlers, *self._standard()))
        host = config.host or "0.0.0.0"  # noqa: S104 - blank means every address
        where = f"[{host}]:{config.port}" if ":" in host else f"{host}:{config.port}"
        try:
            if certificates is None:
                port = server.add_insecure_port(where)
            else:
                port = server.add_secure_port(where, certificates.credentials())
        except RuntimeError as error:
            text = f"cannot listen at {where}; free the port or set grpc.port to another"
            raise StopInit(("port_taken", text)) from error
        await server.start()
        self._server, self._address = server, (host, port)
        self.process.on_release(lambda _entry: self._cut())
        if certificates is None and host not in ("127.0.0.1", "::1", "localhost"):
            advice = "passwords and tokens travel in the clear; set grpc.tls"
            log.warning("grpc_open_to_network", host=host, advice=advice)

    async def handle_call(self, request: object, caller: object) -> Reply:
        return Reply(self._address)

    async def terminate(self, reason: object) -> None:
        await self._server.stop(GRACE)

    def _cut(self) -> None:
        # After a kill nobody awaits it; it is done by then otherwise.
        self.process.runtime.spawn(self._server.stop, None, label="grpc_stop")

    def _standard(self) -> Iterator[grpc.GenericRpcHandler]:
        health = grpc.unary_unary_rpc_method_handler(
            self._health,
            request_deserializer=standard.HealthRequest.FromString,
            response_serializer=standard.HealthReply.SerializeToString,
        )
        yield grpc.method_handlers_generic_handler(HEALTH, {"Check": health})
        reflection = grpc.stream_stream_rpc_method_handler(
            _reflect,
            request_deserializer=standard.ReflectionRequest.FromString,
            response_serializer=standard.ReflectionReply.SerializeToString,
        )
        for name in REFLECTION:
            yield grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": reflection})

    async def _health(self, request: standard.HealthRequest, context: Context) -> standard.HealthReply:
        known = {"", *(service.full_name for service in wire.DESCRIPTOR.services_by_name.values())}
        if request.service not in known:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"service: expected one of {sorted(known)[1:]}")
        serving = self._status().state == "running"
        return standard.HealthReply(status=_SERVING if serving else _SERVING + 1)


async def _reflect(requests: Any, _context: Context) -> AsyncIterator[standard.ReflectionReply]:
    """Describe the services, for tools that know none of them (``grpcurl``, ``grpcui``)."""
    file = wire.DESCRIPTOR
    symbols = {one.full_name for one in file.services_by_name.values()}
    symbols |= {f"{file.package}.{name}" for name in (*file.message_types_by_name, *file.enum_types_by_name)}
    async for request in requests:
        reply = standard.ReflectionReply(valid_host=request.host, original_request=request)
        symbol = request.file_containing_symbol
        if request.WhichOneof("wanted") == "list_services":
            names = sorted([HEALTH, *(one.full_name for one in file.services_by_name.values())])
            reply.services.service.extend([standard.ServiceName(name=name) for name in names])
        elif request.file_by_filename == file.name or {symbol, symbol.rpartition(".")[0]} & symbols:
            reply.files.file_descriptors.append(file.serialized_pb)
        else:
            text = f"expected a name of the package {file.package}"
            reply.error.CopyFrom(standard.ReflectionError(error_code=5, error_message=text))
        yield reply


def _handlers(described: Any, service: object) -> grpc.GenericRpcHandler:
    """Return the handlers of a service: for each of its methods the one of the same name, in lower case."""
    made = {}
    for method in described.methods:
        function = getattr(service, method.name.lower())
        kinds = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        wrap = _streamed if method.server_streaming else _answered
        made[method.name] = kinds[method.client_streaming, method.server_streaming](
            wrap(function),
            request_deserializer=method.input_type._concrete_class.FromString,
            response_serializer=method.output_type._concrete_class.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(described.full_name, made)


def _answered(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def call(request: Any, context: Context) -> Any:
        try:
            return await function(request, context)
        except GossamerError as error:
            await context.abort(code_of(error), str(error))

    return call


def _streamed(function: Callable[..., AsyncGenerator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(function)
    async def call(request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            async with contextlib.aclosing(function(request, context)) as replies:
                async for reply in replies:
                    yield reply
        except GossamerError as error:
            await context.abort(code_of(error), str(error))

    return call
