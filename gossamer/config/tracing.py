"""The configuration's section about OpenTelemetry traces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from gossamer.config.section import Fraction, Positive, Section
from gossamer.config.units import PositiveDuration

__all__ = ["TracingConfig"]


class TracingConfig(Section):
    """OpenTelemetry traces of messages, from publisher to subscribers and across nodes. It needs the
    extra ``otel``. Set it alike on all nodes."""

    enable: bool = False
    """Make spans of messages and send them."""
    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s/]+(/\S*)?$")] = "http://127.0.0.1:4318/v1/traces"
    """Where spans go: a collector that takes OTLP over HTTP with protobuf, its path included."""
    sample: Fraction = 0.01
    """Share of the messages that are traced; while messages are recorded too (``audit``), some of those. A
    message that comes with a ``traceparent`` is traced when that says so, and never otherwise."""
    service_name: Annotated[str, Field(min_length=1)] = "gossamer"
    """What backends list the spans under."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Sent with every request to the collector, tokens for example."""
    timeout: PositiveDuration = 5.0
    """How long a batch may take; then it is lost and counted."""
    deliveries: Positive = 16
    """Subscribers of a message, on each node, that get a span of their own; the others are counted."""
