"""The page of the metrics: name, type, unit, labels and meaning, from those that a node has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gossamer.api import Metric, ProcessNumbers
from script.references.markdown import cell, code, flow, table

_HEAD = """
# Metrics

Every node answers `GET /metrics` at its API's port, in Prometheus' text format, each for itself. Names end in
their unit, counters in `_total`; names and labels only ever grow. A dashboard and alert rules over them:
[Watching a cluster](../deploy/monitoring.md).

`process_…` are those of the operating-system process, as every Prometheus client has them; they are there on
Linux.
"""

_UNITS = ("seconds", "bytes", "rows", "messages", "sessions", "connections", "members")


def metrics_page(metrics: Iterable[Metric]) -> str:
    """In the order in which a node gives them."""
    named = ((metric.name, metric.kind, metric.labels, metric.family.documentation) for metric in metrics)
    rows = (
        (code(name), kind, _unit(name), " ".join(map(code, labels)) or "–", cell(text))
        for name, kind, labels, text in (*named, *_of_the_process())
    )
    return f"{flow(_HEAD)}\n" + table(("name", "type", "unit", "labels", "counts"), rows)


def _of_the_process() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for family in ProcessNumbers().collect():
        suffix = "_total" if family.type == "counter" else ""
        yield family.name + suffix, family.type, (), family.documentation


def _unit(name: str) -> str:
    """The last word of a name that is a unit; what is counted is one, too."""
    words = reversed(name.removesuffix("_total").split("_"))
    return next((word for word in words if word in _UNITS), "–")
