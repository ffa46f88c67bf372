"""A collector of traces: as little of OTLP over HTTP as an exporter needs."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """Listens on a port of its own while it is entered; ``spans`` are plain dicts."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.headers.append({key.lower(): value for key, value in self.headers.items()})
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def traces(self) -> dict[bytes, list[dict[str, Any]]]:
        """Spans by their trace."""
        found: dict[bytes, list[dict[str, Any]]] = {}
        for span in list(self.spans):
            found.setdefault(span["trace"], []).append(span)
        return found


def _spans(request: ExportTraceServiceRequest) -> list[dict[str, Any]]:
    found = []
    for batch in request.resource_spans:
        resource = {pair.key: pair.value.string_value for pair in batch.resource.attributes}
        for scope in batch.scope_spans:
            found += [
                {
                    "trace": span.trace_id,
                    "span": span.span_id,
                    "parent": span.parent_span_id,
                    "name": span.name,
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "error": span.status.message if span.status.code == 2 else None,
                    "node": resource["service.instance.id"],
                    "service": resource["service.name"],
                    "attributes": {
                        pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes
                    },
                }
                for span in scope.spans
            ]
    return found
