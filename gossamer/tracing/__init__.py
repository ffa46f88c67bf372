"""OpenTelemetry traces of messages: what a recorder notes of them, as spans, sent to a collector."""

from gossamer.tracing.context import TRACEPARENT, Name, Parent, parent_in, parse_traceparent
from gossamer.tracing.service import TRACING, Tracing
from gossamer.tracing.spans import Span, SpanBuilder
from gossamer.tracing.tape import TracedTape

__all__ = [
    "TRACEPARENT",
    "TRACING",
    "Name",
    "Parent",
    "Span",
    "SpanBuilder",
    "TracedTape",
    "Tracing",
    "parent_in",
    "parse_traceparent",
]
