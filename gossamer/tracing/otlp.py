"""Spans as OpenTelemetry has them, and the exporter that sends them. Imports the SDK, which takes a while:
only the thread that exports comes here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from gossamer import __version__
from gossamer.config import TracingConfig
from gossamer.tracing.spans import Span

_KINDS = {
    "server": SpanKind.SERVER,
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_SCOPE = InstrumentationScope("gossamer", __version__)
_FLAGS = TraceFlags(TraceFlags.SAMPLED)
_US = 1_000


def resource_of(node: str, service_name: str) -> Resource:
    """Who made the spans."""
    facts = {"service.name": service_name, "service.instance.id": node, "service.version": __version__}
    return Resource.create(facts)


def readable(spans: Iterable[Span], resource: Resource) -> list[ReadableSpan]:
    """What exporters take."""
    return [
        ReadableSpan(
            span.name,
            context=SpanContext(span.trace, span.span, is_remote=False, trace_flags=_FLAGS),
            parent=None
            if span.parent is None
            else SpanContext(span.trace, span.parent, is_remote=span.remote, trace_flags=_FLAGS),
            resource=resource,
            attributes=span.attributes,
            kind=_KINDS[span.kind],
            status=Status() if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=span.start * _US,
            end_time=span.end * _US,
            instrumentation_scope=_SCOPE,
        )
        for span in spans
    ]


def make_exporter(config: TracingConfig) -> SpanExporter:
    """OTLP over HTTP with protobuf, as ``config`` has it; certificates as ``OTEL_EXPORTER_OTLP_…`` say."""
    # It says of every try that it failed; what came of all of them is counted, and logged once.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    headers: Mapping[str, str] = {name: value.get_secret_value() for name, value in config.headers.items()}
    return OTLPSpanExporter(endpoint=config.endpoint, headers=dict(headers), timeout=config.timeout)
