"""Turns a node's metrics into Prometheus' text format.

The node keeps plain integers where things happen and hands them over when asked, so that counting costs an
addition and nothing below this package knows of Prometheus.

Rule: a scrape is cut into pieces of :data:`PIECE` families, and others get their turn of the loop between
them: the page of a large cluster takes longer to write than a message may wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from gossamer.api.metrics.process import ProcessNumbers
from gossamer.api.model.node import Metric
from gossamer.api.view import NodeView

__all__ = ["CONTENT_TYPE_LATEST", "Exposition"]

PIECE = 12
"""Families that are written in one turn."""


class _Given(Collector):
    """Some families, as a collector."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        return map(_family, self._metrics)


def _family(metric: Metric) -> Family:
    if metric.kind == "histogram":
        found = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for sample in metric.samples:
            values = [sample.labels[label] for label in metric.labels]
            found.add_metric(values, buckets=list(sample.buckets), sum_value=sample.sum)
        return found
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for sample in metric.samples:
        family.add_metric([sample.labels[label] for label in metric.labels], sample.value)
    return family


class Exposition:
    """The page behind ``/metrics``: the node's numbers, and the memory, time and files of its process."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._process = CollectorRegistry(auto_describe=False)
        self._numbers = ProcessNumbers()
        self._process.register(self._numbers)

    async def render(self) -> bytes:
        """The text format, version 1."""
        await self._view.count()
        if self._numbers.is_slow:
            parts = [await asyncio.to_thread(generate_latest, self._process)]
        else:
            parts = [generate_latest(self._process)]
        metrics = iter(self._view.metrics())
        while piece := list(islice(metrics, PIECE)):
            parts.append(_text(piece))
            await asyncio.sleep(0)
        return b"".join(parts)


def _text(metrics: list[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(metrics))
    return generate_latest(registry)
