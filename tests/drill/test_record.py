"""The record of a drill: to JSON and back, and what is no record."""

from pathlib import Path

import msgspec
import pytest

from drill.made import cut_between
from gossamer.drill import read_record, record_json
from gossamer.drill.record import (
    ClientDrop,
    Clients,
    DrillRecord,
    Mark,
    Phase,
    Plan,
    RecordError,
    Sample,
    Side,
    Tally,
    Verdict,
)
from gossamer.drill.stage.backend import LinkFault

RECORD = DrillRecord(
    plan=Plan(kind="partition", shape="1/1", nodes=("a", "b"), settings={"delay": 0.2, "cut": True}),
    began_at=1.5,
    sides=(Side("1", ("a",)), Side("2", ("b",))),
    phases=(Phase("split", 0, 20),),
    marks=(Mark(1.25, "a", "declared down", "b"),),
    traffic=(Tally(source="1", target="2", phase="split", qos=1, persistent=True, sent=3),),
    samples=(Sample(0, "1", sent=3),),
    clients=Clients(2, 2, (ClientDrop(3.0, "c", "a", "reset"),)),
    verdicts=(Verdict("no client is dropped", kept=False, got="1"),),
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "drill.json"
    file.write_bytes(record_json(RECORD))
    assert read_record(file) == RECORD


def test_keys_of_a_later_version_that_only_adds_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "drill.json"
    file.write_bytes(msgspec.json.encode({**msgspec.to_builtins(RECORD), "more": 1}))
    assert read_record(file) == RECORD


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "truncated"),
        (b"{}", "plan"),
        (record_json(msgspec.structs.replace(RECORD, version=99)), "version 99"),
        (None, "No such file"),
    ],
)
def test_what_is_no_record_is_said(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "drill.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(RecordError, match=says) as caught:
        read_record(file)
    assert str(file) in str(caught.value)


def test_a_cut_between_sides_is_of_every_pair_both_ways() -> None:
    assert set(cut_between(["a", "b"], ["c"])) == {
        LinkFault("a", "c", cut=True),
        LinkFault("c", "a", cut=True),
        LinkFault("b", "c", cut=True),
        LinkFault("c", "b", cut=True),
    }
