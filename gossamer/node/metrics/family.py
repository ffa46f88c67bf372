"""How one family of numbers is written down: ``link_up{peer}`` is ``gossamer_link_up`` with a label ``peer``.

With labels, there is a number for each value of the label, or for each tuple of values where it has several.
Without, None says that there is nothing to count, and the name stands alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from gossamer.api import Metric
from gossamer.histogram import Histogram

__all__ = ["beginning", "durations", "family"]


def family(spec: str, text: str, value: float | Mapping[Any, float] | None) -> Metric:
    """A counter where the name says ``_total``, or else a gauge."""
    name, labels = _parsed(spec)
    counts = name.endswith("_total")
    found = (CounterMetricFamily if counts else GaugeMetricFamily)(name, text, labels=labels)
    rows = value if isinstance(value, Mapping) else {} if value is None else {(): value}
    for key, row in sorted(rows.items()):
        found.add_metric(_values(key), row)
    return Metric(name, "counter" if counts else "gauge", labels, found)


def durations(spec: str, text: str, value: Histogram | Mapping[Any, Histogram]) -> Metric:
    """How many took how long."""
    name, labels = _parsed(spec)
    found = HistogramMetricFamily(name, text, labels=labels)
    for key, row in ({(): value} if isinstance(value, Histogram) else value).items():
        buckets = list(zip((*map(str, row.bounds), "+Inf"), row.buckets(), strict=True))
        found.add_metric(_values(key), buckets, row.sum)
    return Metric(name, "histogram", labels, found)


def _parsed(spec: str) -> tuple[str, tuple[str, ...]]:
    name, _, labels = spec.removesuffix("}").partition("{")
    return f"gossamer_{name}", tuple(labels.split(",")) if labels else ()


def _values(key: str | tuple[str, ...]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


def beginning(prefix: str, counts: Mapping[str, int]) -> dict[str, int]:
    """The ``counts`` whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}
