"""The dashboard and the alert rules ask for numbers that a node really gives."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from gossamer.config import Config
from gossamer.node import Node

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
RUNBOOK = ROOT / "docs" / "guide" / "runbook.md"
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
        re.findall(r"\b(gossamer_\w+|process_\w+|up)(?=[{\s\[)]|$)", re.sub(r'"[^"]*"', '""', expression))
    )


@pytest.fixture(scope="module")
def labelled():
    """The names that a node gives, each with its labels."""

    async def names():
        node = Node(Config(), creation=1, cookie="of a node that never starts")
        names = {}
        for metric in node.view.metrics():
            parts = ("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",)
            names.update((metric.name + part, set(metric.labels)) for part in parts)
        return names

    return asyncio.run(names())


@pytest.fixture(scope="module")
def given(labelled):
    return set(labelled)


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda value: value[:40])
def test_every_number_that_is_asked_for_exists(where, expression, given):
    asked = metrics_in(expression)
    assert asked, f"{where} asks for nothing that this test knows"
    assert asked <= given | FOREIGN, f"{where} asks for {sorted(asked - given - FOREIGN)}"


def test_every_alert_says_what_to_do():
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "action", "runbook_url"}, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def anchors(page):
    return {title.lower() for title in re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE)}


def test_a_runbook_link_leads_somewhere_as_it_comes_and_after_the_edit_that_is_documented():
    page = (ROOT / "docs" / "deploy" / "monitoring.md").read_text()
    old, new = re.findall(r"sed -i 's#(.+?)#(.+?)#' deploy/monitoring/alerts.yaml", page)[0]
    for rule in rules():
        link = rule["annotations"]["runbook_url"]
        path, _, anchor = link.partition("#")
        assert (ROOT / path).is_file()
        assert anchor in anchors(ROOT / path)
        published = link.replace(old, new)
        assert published == f"https://intranet/gossamer/guide/runbook.html#{anchor}"


def test_every_alert_has_its_paragraph_in_the_runbook_and_nothing_else_has():
    paragraphs = re.findall(r"^## (\w+)\n\n(.+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sorted(name for name, _ in paragraphs) == sorted(rule["alert"] for rule in rules())
    for rule in rules():
        anchor = rule["annotations"]["runbook_url"].partition("#")[2]
        assert anchor == rule["alert"].lower()


def test_numbers_that_pages_name_exist(labelled):
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = 0
    for page in pages:
        for name, labels in re.findall(r"`(gossamer_[a-z0-9_]+)(?:\{([^}`]*)\})?", page.read_text()):
            known = [labels for given, labels in labelled.items() if given.startswith(name)]
            # A prefix ends in a line; a histogram is named without its parts.
            assert name in labelled or f"{name}_count" in labelled or (name[-1] == "_" and known), (
                f"{page.name}: {name}"
            )
            for label in re.findall(r"(\w+)=", labels):
                assert label in known[0], f"{page.name}: {name} has no label {label}"
            named += 1
    assert named > 50


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda value: value[:40])
def test_what_is_selected_and_summed_by_is_a_label_of_the_metric(where, expression, labelled):
    everywhere = {"job", "instance", "le"}
    known = set().union(*(labelled.get(name, set()) for name in metrics_in(expression))) | everywhere
    asked = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression))
    for by in re.findall(r"\bby \(([^)]*)\)", expression):
        asked |= {label.strip() for label in by.split(",")}
    assert asked <= known, f"{where} asks for the labels {sorted(asked - known)}"


def test_reasons_that_rules_name_are_those_of_the_code():
    """An alert on a reason that nobody gives never fires, or always does."""
    source = "\n".join(path.read_text() for path in sorted((ROOT / "gossamer").rglob("*.py")))
    for where, expression in expressions():
        for values in re.findall(r"(?:reason|outcome|status|alarm)(?:=~|!=|=)\"([^\"]*)\"", expression):
            for value in values.split("|"):
                # Reason codes of the standard are named in capitals.
                word = rf"\b{value.replace('.*', '[a-z_]*')}\b"
                assert re.search(word, source, re.IGNORECASE), f"{where} names {value}"


def test_every_expression_is_closed():
    for where, expression in expressions():
        bare = re.sub(r'"[^"]*"', "", expression)
        for opening, closing in ("()", "{}", "[]"):
            assert bare.count(opening) == bare.count(closing), where


def test_panels_do_not_cover_each_other():
    panels = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_samples_have_the_labels_that_their_metric_names():
    async def metrics():
        return list(Node(Config(), creation=1, cookie="of a node that never starts").view.metrics())

    labelled = 0
    for metric in asyncio.run(metrics()):
        for sample in metric.family.samples:
            assert sample.labels.keys() - {"le"} == set(metric.labels), metric.name
            labelled += bool(metric.labels)
    assert labelled > 10
