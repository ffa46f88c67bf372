"""How one family of numbers is written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gossamer.api.model.node import Metric, Sample
from gossamer.histogram import Histogram

__all__ = ["by", "histogram", "one"]

Kind = Literal["counter", "gauge"]


def one(name: str, text: str, kind: Kind, value: float | None) -> Metric:
    """A number without labels; None: there is nothing to count, and the name stands alone."""
    samples = () if value is None else (Sample(value=value),)
    return Metric(name=name, help=text, kind=kind, samples=samples)


def by(
    label: str | tuple[str, ...],
    name: str,
    text: str,
    kind: Kind,
    values: Mapping[Any, float],
) -> Metric:
    """A number for each value of a label, or of several."""
    names = (label,) if isinstance(label, str) else label
    return Metric(
        name=name,
        help=text,
        kind=kind,
        labels=names,
        samples=tuple(
            Sample(
                value=value,
                labels=dict(zip(names, (key,) if isinstance(key, str) else key, strict=True)),
            )
            for key, value in values.items()
        ),
    )


def histogram(name: str, text: str, found: Histogram | Mapping[str, Histogram], *, label: str = "") -> Metric:
    """How many took how long, of all or for each value of a label."""
    rows = {"": found} if isinstance(found, Histogram) else found
    return Metric(
        name=name,
        help=text,
        kind="histogram",
        labels=(label,) if label else (),
        samples=tuple(
            Sample(
                value=row.count,
                labels={label: key} if label else {},
                buckets=tuple(zip((*map(str, row.bounds), "+Inf"), row.buckets(), strict=True)),
                sum=row.sum,
            )
            for key, row in rows.items()
        ),
    )
