"""Whatever a recording lacks or holds too much of, the verdict is right, or says what it cannot be."""

from collections import Counter
from dataclasses import replace

from gossamer.spark.analyses.completeness import verdicts
from gossamer.spark.source.files import Footer, without_duplicates
from gossamer.spark.source.source import load
from tests.spark.world import SECOND, World

DAY = 86_400 * SECOND


def counts(recording):
    return Counter(row["verdict"] for row in recording.engine.rows(verdicts(recording)))


def test_a_clock_that_is_a_day_off_and_does_not_know_is_found_by_its_links(engine, tmp_path):
    """Nothing is lost, late or misrouted for it, and every file of the node says so."""
    world = World(11, clients=6)
    world.skew["n2@host"] = DAY
    world.unaware.add("n2@host")
    world.play(120).write(tmp_path)
    recording = load(engine, str(tmp_path))
    assert {(p.kind, p.path.rsplit("node=", 1)[1].split("/")[0]) for p in recording.problems} == {
        ("clock", "n2%40host")
    }
    assert "about +86400.0 s off, which it did not know" in recording.problems[0].message
    assert dict(counts(recording)) == world.found


def test_files_that_overlap_and_rows_out_of_order_by_hours_change_nothing(judged):
    recording, world = judged.recording, judged.worlds["late"]
    assert {problem.kind for problem in recording.problems} == {"overlap"}
    assert all("%40late/" in problem.path for problem in recording.problems)
    assert not recording.holes
    assert dict(Counter(row.verdict for row in judged.rows("late"))) == world.found


def test_a_node_without_files_is_missed_by_name_and_blamed_for_nothing(holed):
    recording = holed.recording
    (hole,) = (hole for hole in recording.holes if hole.node.endswith("@missing"))
    assert (hole.node, hole.begin, hole.end) == ("n3@missing", recording.begin, recording.end)
    assert "no file of this node" in hole.why
    assert recording.missing == {"n3@missing": ("n1@missing", "n2@missing")}
    found = Counter(row.verdict for row in holed.rows("missing"))
    assert found["undecidable"]
    assert found["delivered"]
    assert not found["lost"] + found["misrouted"] + found["doubled"]


def test_of_files_that_overlap_each_event_is_read_once():
    def footer(path, first, last):
        return Footer(path, "n1", 1, first, last, first, last)

    kept, problems = without_duplicates(
        [footer("a", 1, 100), footer("b", 90, 150), footer("c", 20, 30), footer("d", 140, 160)]
    )
    assert kept == [
        footer("a", 1, 100),
        replace(footer("b", 90, 150), only=((101, 150),)),
        replace(footer("d", 140, 160), only=((151, 160),)),
    ]
    assert [(problem.path, problem.kind) for problem in problems] == [
        ("b", "overlap"),
        ("d", "overlap"),
        ("c", "duplicate"),
    ]
