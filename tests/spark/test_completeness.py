"""Completeness finds exactly the faults that are in a history, says where, and its numbers add up."""

from collections import Counter

import pytest

import gossamer.audit.schema as schema
from gossamer.spark.completeness import verdicts
from gossamer.spark.source import load
from tests.spark import auditor
from tests.spark.world import SECOND, START, World

pytestmark = pytest.mark.spark


def counts(recording):
    return tell(verdicts(recording).collect())


def tell(rows):
    """How many have which verdict, and where what was lost was."""
    return Counter(row.verdict for row in rows), Counter(row.hop for row in rows if row.verdict == "lost")


def test_every_fault_is_found_and_nothing_else(judged):
    world = judged.worlds["every"]
    found, hops = tell(judged.rows("every"))
    assert dict(found) == world.found
    assert set(found) == {"delivered", "late", "doubled", "lost", "misrouted", "queued"}
    assert hops == world.lost_at


@pytest.mark.parametrize("name", ["jumble", "muddle"])
def test_it_agrees_with_a_brute_force_auditor_whatever_happened(judged, name):
    world = judged.worlds[name]
    found, _ = tell(judged.rows(name))
    expected = auditor.judge(world.all_rows, settle=SECOND, late_after=5 * SECOND)
    assert dict(found) == expected, f"seed {world.seed}"


def test_a_takeover_in_flight_is_no_loss_and_what_it_loses_is_said_to_be_lost_in_it(judged):
    found, hops = tell(judged.rows("takeover"))
    assert dict(found) == {"delivered": 3, "lost": 1}
    assert dict(hops) == {"n2@takeover to n3@takeover: lost as the session moved": 1}


def test_what_a_hole_may_hide_is_undecidable_and_the_rest_is_judged(spark, tmp_path):
    """The second of three files of a node is gone: nothing that could have happened there is called lost."""
    world = World(3, faults=0).play(300)
    world.write(tmp_path, files=3, drop={("n2@host", 1)})
    recording = load(spark, str(tmp_path))
    assert {hole.node for hole in recording.holes} == {"n2@host"}
    (hole,) = recording.holes
    found = verdicts(recording).collect()
    kinds = Counter(row.verdict for row in found)
    assert kinds["lost"] == kinds["misrouted"] == kinds["doubled"] == 0
    assert kinds["undecidable"] > 0
    assert kinds["delivered"] > 0
    # Whoever is connected to a node whose recording is whole, before and after, is judged.
    early = [row for row in found if row.published_at and row.published_at < hole.begin - 10 * SECOND]
    assert {row.verdict for row in early if "n2@host" not in (row.node, row.origin)} == {"delivered"}
    assert START < hole.begin < hole.end


def test_a_gap_that_the_recorder_tells_of_is_a_hole_too(spark, tmp_path):
    """What the tape had no place for is missing, and its place in time and its number are known."""
    world = World(3, faults=0).play(80)
    rows = world.rows["n2@host"]
    cut = slice(len(rows) // 4, len(rows) // 4 + 40)
    gap = {**rows[cut][-1], "event": schema.GAP, "count": 39, "reason": "overflow"}
    common = ("seq", "event", "hlc", "at", "offset_us", "recorder", "creation", "count", "reason")
    rows[cut] = [{name: gap[name] for name in common}]
    recording = load(spark, str(world.write(tmp_path)))
    assert len(recording.holes) == 1, recording.holes
    (hole,) = recording.holes
    assert hole.why == "the recorder dropped 39 events"
    found, _ = counts(recording)
    assert found["undecidable"]
    assert not found["lost"]
    assert not found["misrouted"]


def kept_of(rows, every):
    """What a recorder keeps that samples one message of ``every``: rows of one message each."""
    kept = []
    for row in rows:
        if row.get("message") is None:
            kept.append(row)
        else:
            numbers = range(row["message"], row["message"] + row["count"])
            kept += [{**row, "message": n, "count": 1} for n in numbers if n % every == 0]
    for seq, row in enumerate(kept, 1):
        row["seq"] = seq
    return kept


def test_a_sample_is_judged_like_the_whole(spark, tmp_path):
    world = World(6).play(150)
    for node, rows in world.rows.items():
        world.rows[node] = kept_of(rows, 2)
        world.rows[node][0]["detail"] = '{"share": 0.5}'
    rows = [row for rows in world.rows.values() for row in rows]
    recording = load(spark, str(world.write(tmp_path)))
    assert recording.share == 0.5
    found, _ = counts(recording)
    assert dict(found) == auditor.judge(rows, settle=SECOND, late_after=5 * SECOND)
    assert found["lost"]
