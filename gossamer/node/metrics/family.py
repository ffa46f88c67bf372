"""How one family of numbers is written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from gossamer.api import Metric
from gossamer.histogram import Histogram

__all__ = ["by", "histogram", "one"]

Key = TypeVar("Key", bound=str | tuple[str, ...])
Kind = Literal["counter", "gauge"]
_FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


def one(name: str, text: str, kind: Kind, value: float | None) -> Metric:
    """A number without labels; None: there is nothing to count, and the name stands alone."""
    return by((), name, text, kind, {} if value is None else {(): value})


def by(
    label: str | tuple[str, ...],
    name: str,
    text: str,
    kind: Kind,
    values: Mapping[Key, float],
) -> Metric:
    """A number for each value of a label, or of several."""
    labels = (label,) if isinstance(label, str) else label
    family = _FAMILIES[kind](name, text, labels=labels)
    for key, value in values.items():
        family.add_metric((key,) if isinstance(key, str) else key, value)
    return Metric(name, kind, labels, family)


def histogram(name: str, text: str, found: Histogram | Mapping[str, Histogram], *, label: str = "") -> Metric:
    """How many took how long, of all or for each value of a label."""
    labels = (label,) if label else ()
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, row in ({"": found} if isinstance(found, Histogram) else found).items():
        buckets = list(zip((*map(str, row.bounds), "+Inf"), row.buckets(), strict=True))
        family.add_metric((key,) if label else (), buckets, row.sum)
    return Metric(name, "histogram", labels, family)
