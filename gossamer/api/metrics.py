"""Turns a node's metrics into Prometheus' text format.

The node keeps plain integers where things happen and hands them over when asked, so that counting costs an
addition and nothing below this package knows of Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from gossamer.api.model import Metric
from gossamer.api.view import NodeView

__all__ = ["CONTENT_TYPE_LATEST", "Exposition"]


class _NodeCollector(Collector):
    def __init__(self, view: NodeView) -> None:
        self._view = view

    def collect(self) -> Iterator[Family]:
        for metric in self._view.metrics():
            yield _family(metric)

    def describe(self) -> Iterator[Family]:
        # Asked at registration, when the node may not be there yet.
        return iter(())


def _family(metric: Metric) -> Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for sample in metric.samples:
        family.add_metric([sample.labels[label] for label in metric.labels], sample.value)
    return family


class Exposition:
    """The page behind ``/metrics``: the node's numbers, and the memory, time and files of its process."""

    def __init__(self, view: NodeView) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._registry.register(_NodeCollector(view))

    def render(self) -> bytes:
        """The text format, version 1."""
        return generate_latest(self._registry)
