"""The dashboard and the alert rules ask for numbers that a node really gives."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from gossamer.config import Config
from gossamer.node import Node
from gossamer.node.metrics import metrics_of

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
# Of Prometheus itself, and of the process.
FOREIGN = {
    "up",
    "process_open_fds",
    "process_max_fds",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
}


def expressions():
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]


def rules():
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def metrics_in(expression):
    return set(
        re.findall(r"\b(gossamer_\w+|process_\w+|up)(?=[{\s\[]|$)", re.sub(r'"[^"]*"', '""', expression))
    )


@pytest.fixture(scope="module")
def given():
    async def names():
        node = Node(Config(), creation=1, cookie="of a node that never starts")
        names = set()
        for metric in metrics_of(node):
            parts = ("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",)
            names.update(metric.name + part for part in parts)
        return names

    return asyncio.run(names())


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda value: value[:40])
def test_every_number_that_is_asked_for_exists(where, expression, given):
    asked = metrics_in(expression)
    assert asked, f"{where} asks for nothing that this test knows"
    assert asked <= given | FOREIGN, f"{where} asks for {sorted(asked - given - FOREIGN)}"


def test_every_alert_says_what_to_do():
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_samples_have_the_labels_that_their_metric_names():
    async def metrics():
        return list(metrics_of(Node(Config(), creation=1, cookie="of a node that never starts")))

    labelled = 0
    for metric in asyncio.run(metrics()):
        for sample in metric.samples:
            assert tuple(sample.labels) == metric.labels, metric.name
            labelled += bool(metric.labels)
    assert labelled > 10
