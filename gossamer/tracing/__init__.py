"""OpenTelemetry traces of messages: what a recorder notes of them, as spans, sent to a collector."""

from gossamer.tracing.context import TRACEPARENT, Name, Parent, parent_in, parse_traceparent
from gossamer.tracing.service import TRACING, Tracing
from gossamer.tracing.spans import Span, SpanBuilder
from gossamer.tracing.traced_buffer import TracedBuffer

__all__ = [
    "TRACEPARENT",
    "TRACING",
    "Name",
    "Parent",
    "Span",
    "SpanBuilder",
    "TracedBuffer",
    "Tracing",
    "parent_in",
    "parse_traceparent",
]
