"""Spans as OpenTelemetry has them, and the exporter that sends them. Imports the SDK, which takes a while:
only the thread that exports comes here.
"""

from __future__ import annotations

import logging

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from gossamer import __version__
from gossamer.config import TracingConfig
from gossamer.tracing.spans import Span

_SCOPE = InstrumentationScope("gossamer", __version__)
_FLAGS = TraceFlags(TraceFlags.SAMPLED)
_US = 1_000


class OtlpSender:
    """Sends spans by OTLP over HTTP with protobuf, as ``config`` has it; made in the thread that uses it.

    Certificates are those that ``OTEL_EXPORTER_OTLP_…`` name. ``exporter``: instead of that one.
    """

    def __init__(self, config: TracingConfig, node: str, exporter: SpanExporter | None = None) -> None:
        facts = {
            "service.name": config.service_name,
            "service.instance.id": node,
            "service.version": __version__,
        }
        self._resource = Resource.create(facts)
        # It says of every try that it failed; what came of all of them is counted, and logged once.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        self._exporter = exporter or OTLPSpanExporter(
            endpoint=config.endpoint, headers=headers, timeout=config.timeout
        )

    def __call__(self, spans: list[Span]) -> bool:
        return self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS

    def close(self) -> None:
        self._exporter.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        def context(number: int, *, remote: bool) -> SpanContext:
            return SpanContext(span.trace, number, is_remote=remote, trace_flags=_FLAGS)

        return ReadableSpan(
            span.name,
            context=context(span.span, remote=False),
            parent=None if span.parent is None else context(span.parent, remote=span.remote),
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind[span.kind.upper()],
            status=Status() if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=span.start * _US,
            end_time=span.end * _US,
            instrumentation_scope=_SCOPE,
        )
