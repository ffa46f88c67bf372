"""Reports of drills: whole in themselves, honest in the first sentence, safe with names from outside."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from drill.made import END, NODES, marks, record
from gossamer.drill.record import ClientDrop, Clients, DrillRecord, Mark, Phase, Plan, Sample, Side
from gossamer.drill.report.page import html, suite_html
from gossamer.drill.report.promises import PROMISES, judge
from gossamer.drill.report.timeline import SYMBOLS, Stretch, clusters, legend, stretches
from gossamer.drill.report.words import happened, name_of, summarise

VOID = {"meta", "br", "hr", "path", "rect", "polyline"}


def judged(**changes: object) -> DrillRecord:
    made = record(**changes)
    return replace(made, verdicts=judge(made))


class Reader(HTMLParser):
    """Reads a page strictly: every tag is closed, links lead somewhere, nothing comes from elsewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.anchors: list[str] = []
        self.tags: list[str] = []
        self.said: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        assert tag not in {"script", "link", "img", "iframe", "object"}
        assert not {"src", "onload", "onclick"} & found.keys()
        if tag == "a":
            assert (found["href"] or "").startswith("#")
            self.anchors.append((found["href"] or "")[1:])
        if "id" in found:
            self.ids.append(found["id"] or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def read(page: str) -> Reader:
    reader = Reader(page)
    assert sorted(set(reader.ids)) == sorted(reader.ids)
    assert set(reader.anchors) <= set(reader.ids)
    assert not re.search(r"https?://|url\(|@import", page.replace("http://www.w3.org/2000/svg", ""))
    assert len(page.encode()) < 500_000
    return reader


def test_a_report_says_first_what_became_of_the_promises():
    text = read(html(judged())).text
    assert "All 10 promises that this drill puts to the test were kept. Nodes 1, 2, 3 and nodes 4, 5" in text
    assert all(promise in text for promise in PROMISES)
    assert "1,2,3 → 4,5 (cut off)" in text
    assert "node4, node5" in text


def test_a_broken_promise_is_in_the_first_sentence():
    drops = (ClientDrop(7.0, "s-1", NODES[0], "keep-alive"),)
    text = read(html(judged(clients=Clients(5, 30, drops)))).text
    assert "1 of 10 promises was broken: No client is dropped (got 1 of 35; first s-1" in text
    assert "Clients that were dropped" in text


def test_a_drill_that_failed_says_so_first():
    text = read(html(judged(failure="node3@127.0.0.1 never came back"))).text
    assert "could not be carried out to its end: node3@127.0.0.1 never came back" in text


def test_names_from_outside_stay_text():
    evil = "<script>alert(1)</script>\"'&"
    drops = (ClientDrop(7.0, evil, NODES[0], evil),)
    found = (
        *marks(),
        Mark(30.0, NODES[0], "client dropped", evil, evil),
        Mark(31.0, "", "fault applied", "", evil),
    )
    sides = (Side(evil, NODES[:3]), Side("4,5", NODES[3:]))
    page = html(judged(clients=Clients(5, 30, drops), marks=found, sides=sides, failure=evil))
    assert "<script" not in page
    assert "<script>alert(1)" in read(page).text


def test_a_report_stays_small_however_long_the_drill():
    many = tuple(
        Mark(second / 10, NODES[second % 5], "suspected", NODES[(second + 1) % 5]) for second in range(20_000)
    )
    samples = tuple(Sample(float(s), side, 9, 9, 0.1, 0.2) for s in range(2000) for side in ("1,2,3", "4,5"))
    phases = (Phase("split", 0.0, 2000.0),)
    text = read(html(judged(marks=many, samples=samples, phases=phases, seconds=2000.0))).text
    assert "All marks (20,000)" in text
    assert "The first 1,000; the JSON record has all." in text


@pytest.mark.parametrize(
    ("plan", "name", "words"),
    [
        (Plan(kind="partition", shape="1>2", nodes=NODES), "partition 1>2", "one way between 1 and 2"),
        (Plan(kind="partition", shape="1-2", nodes=NODES), "partition 1-2", "the link between 1 and 2"),
        (Plan(kind="kill", shape="3", nodes=NODES), "kill node3", "Node 3 was killed, and started again"),
        (Plan(kind="pause", shape="3", nodes=NODES), "pause node3", "Node 3 stood still for 20 s"),
        (Plan(kind="rolling", shape="", nodes=NODES), "rolling restart", "5 nodes were restarted one after"),
        (Plan(kind="flapping", shape="3/2", nodes=NODES), "flapping 3/2", "again and again"),
        (Plan(kind="coordinator", shape="3/2", nodes=NODES), "coordinator 3/2", "the coordinator was killed"),
        (Plan(kind="clock", shape="2", nodes=NODES, settings={"jump": -60.0}), "clock node2", "was -60 s"),
        (Plan(kind="disk", shape="2", nodes=NODES), "disk node2", "The disc of node 2 was full"),
        (Plan(kind="kill-owner", shape="2", nodes=NODES), "kill owner node2", "Node 2, which had the"),
        (Plan(kind="kill-quorum", shape="2", nodes=NODES), "kill quorum of node2", "All nodes but node 2"),
        (Plan(kind="slow-disc", shape="2", nodes=NODES), "slow disc node2", "node 2 took 0.3 s longer"),
        (Plan(kind="disc-fault", shape="2", nodes=NODES), "disc fault node2", "a bit of its log of replicas"),
        (
            Plan(kind="slow", shape="3/2", nodes=NODES, settings={"delay": 0.2, "loss": 0.05}),
            "slow link 3/2",
            "200 ms late, 5% of packets lost",
        ),
    ],
)  # fmt: skip
def test_every_kind_of_drill_has_a_name_and_words(plan: Plan, name: str, words: str):
    assert name_of(plan) == name
    assert words in happened(record(plan=plan))
    text = read(html(judged(plan=plan))).text
    assert (" fault from 5.0 to" in text) is (plan.kind not in ("partition", "flapping", "coordinator"))


def test_a_drill_that_never_began_has_a_report_too():
    empty = DrillRecord(
        plan=Plan(kind="partition", shape="3/2", nodes=NODES), began_at=0.0, failure="no start"
    )
    read(html(replace(empty, verdicts=judge(empty))))


def test_the_timeline_is_whole_and_draws_every_kind_of_mark():
    kinds = tuple(Mark(float(at), NODES[at % 5], kind, NODES[0]) for at, kind in enumerate(SYMBOLS, 1))
    made = record(marks=kinds)
    drawn = re.search(r'<svg viewBox="0 0 1000.*?</svg>', html(made), re.DOTALL)
    assert drawn
    picture = ElementTree.fromstring(drawn[0])
    titles = [title.text or "" for title in picture.iter("title")]
    assert all(any(f" {kind} " in f"{title} " for title in titles) for kind in SYMBOLS)
    assert [kind for kind, *_ in legend(made)] == list(SYMBOLS)
    assert "split from 5.0 to 25.0 s" in (picture.findtext("desc") or "")
    places = [float(rect.attrib["x"]) + float(rect.attrib["width"]) for rect in picture.iter("rect")]
    assert max(places) <= 1000


def test_a_lane_shows_what_its_node_saw():
    lane = stretches(marks(), NODES[0], END)
    assert [stretch.condition for stretch in lane] == ["clear", "doubt", "blind", "clear"]
    assert (lane[0].begin, lane[-1].end) == (0.0, END)
    assert all(one.end == other.begin for one, other in pairwise(lane))


def test_a_lane_shows_a_node_that_is_gone():
    found = [
        Mark(1.0, "a", "declared down", "b"), Mark(2.0, "a", "process killed"),
        Mark(5.0, "a", "process started"),
        Mark(6.0, "a", "process paused"), Mark(7.0, "a", "process resumed"), Mark(6.5, "b", "suspected", "a"),
    ]  # fmt: skip
    assert stretches(found, "a", 9.0) == [
        Stretch(0.0, 1.0, "clear"), Stretch(1.0, 2.0, "blind"), Stretch(2.0, 5.0, "gone"),
        Stretch(5.0, 6.0, "clear"), Stretch(6.0, 7.0, "still"), Stretch(7.0, 9.0, "clear"),
    ]  # fmt: skip


def test_marks_too_close_to_be_told_apart_are_one_symbol():
    found = [Mark(at, "a", "suspected", str(at)) for at in (1.0, 1.1, 1.3, 1.35)] + [
        Mark(1.1, "b", "suspected")
    ]
    grouped = clusters(sorted(found, key=lambda mark: mark.at), near=0.2)
    assert [(group.at, group.node, len(group.marks)) for group in grouped] == [
        (1.0, "a", 2), (1.1, "b", 1), (1.3, "a", 2),
    ]  # fmt: skip


def test_a_suite_is_kept_only_where_every_drill_kept_it():
    good, bad = judged(), judged(heals=(), conflicts=0)
    kept = summarise({"one": good, "two": good}, {})
    assert kept.kept
    assert kept.words == "10 of 15 promises put to the test over 2 drills, all kept."
    broken = summarise({"one": good, "two": bad}, {"three": "no netem"})
    assert not broken.kept
    row = next(row for row in broken.promises if row.kept is False)
    assert (row.worst, row.kept_in, row.judged_in) == ("two", 1, 2)
    assert broken.more[0].startswith("Not put to the test: Clients of a dead node")
    assert broken.more[1:] == ("Not run: three (no netem).",)
    failed = summarise({"one": good, "two": replace(good, failure="lost")}, {})
    assert not failed.kept
    assert not summarise({}, {"one": "why"}).kept


def test_the_page_of_a_suite_leads_to_every_drill():
    drills = {f"drill {number}": judged() for number in range(16)}
    reader = read(suite_html({**drills, "bad": judged(heals=())}, {"slow": "no netem"}, began_at=0.0))
    assert len([anchor for anchor in reader.anchors if anchor.startswith("drill")]) >= 17
    assert "not run: no netem" in reader.text


def test_what_was_promised_to_nobody_is_not_shown_as_broken():
    """Losses of QoS 0, and of clean sessions across the fault, say what they are; others are red."""
    made = record()
    across = next(
        row
        for row in made.traffic
        if row.source != row.target and row.phase == "heal" and row.qos and not row.persistent
    )
    fast = next(row for row in made.traffic if not row.qos)
    excused = {across: replace(across, lost=125), fast: replace(fast, lost=7)}
    kept = judged(traffic=tuple(excused.get(row, row) for row in made.traffic))
    assert all(verdict.kept is not False for verdict in kept.verdicts)
    assert 'class="n bad"' not in html(kept)
    assert "not promised: QoS 0, or no session that lasts" in html(kept)
    owed = next(row for row in made.traffic if row.qos and row.persistent)
    lost = {**excused, owed: replace(owed, lost=3)}
    broken = judged(traffic=tuple(lost.get(row, row) for row in made.traffic))
    assert any(verdict.kept is False for verdict in broken.verdicts)
    assert 'class="n bad"' in html(broken)
