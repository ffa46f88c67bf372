"""Charts are drawn to scale; what a topic says stays within its text."""

import xml.etree.ElementTree as ET

import pytest

from gossamer.spark.jobs import Findings
from gossamer.spark.report.charts import Chart
from gossamer.spark.report.report import render
from gossamer.spark.run import Outcome
from gossamer.spark.source.source import Recording


def parsed(chart):
    """The chart as the page has it."""
    recording = Recording(engine=None, events="", begin=0, end=1, last=1)
    page = render(Outcome(recording, {"hotspots": Findings({}, (), (chart,))}), {})
    return ET.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def test_bars_are_as_long_as_their_values():
    chart = Chart("bars", "t", "messages", ("a", "b", "c"), {"messages": (10.0, 5.0, 0.0)})
    one, half, none = (float(bar.get("width")) for bar in parsed(chart).iter("rect"))
    assert one > 100
    assert (half, none) == (one / 2, 0)
    with pytest.raises(ValueError, match="substring not found"):
        parsed(Chart("bars", "t", "messages", ("a",), {"messages": (0.0,)}))


def test_lines_go_through_their_values():
    chart = Chart("lines", "t", "ms", ("x", "y", "z"), {"p50": (0.0, 50.0, 100.0), "p99": (100.0, 0.0, 0.0)})
    first, second = (
        [p.split(",") for p in line.get("points").split()] for line in parsed(chart).iter("polyline")
    )
    heights = [float(y) for _, y in first]
    assert heights[0] - heights[1] == heights[1] - heights[2] > 50
    assert [float(y) for _, y in second] == [heights[2], heights[0], heights[0]]


def test_what_a_label_holds_stays_text_and_is_cut():
    evil = '<script>alert("1")</script>' + "x" * 90
    root = parsed(Chart("bars", "t", "messages", (evil,), {"messages": (1.0,)}))
    (text,) = (node.text for node in root.iter("text") if "script" in (node.text or ""))
    assert text.endswith("…")
    pair = "node1@127.0.0.1 to node2@127.0.0.1"
    assert len(text) == len(pair)
    (text, _) = (node.text for node in parsed(Chart("bars", "t", "", (pair,), {"": (1.0,)})).iter("text"))
    assert text == pair
