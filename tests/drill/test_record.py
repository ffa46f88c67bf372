"""The record of a drill: to JSON and back."""

import msgspec

from gossamer.drill.record import (
    ClientDrop,
    Clients,
    DrillRecord,
    Mark,
    Phase,
    Plan,
    Sample,
    Side,
    Tally,
    Verdict,
    record_json,
)

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


def test_a_record_is_read_as_it_was_written() -> None:
    assert msgspec.json.decode(record_json(RECORD), type=DrillRecord) == RECORD


def test_keys_of_a_later_version_that_only_adds_are_passed_over() -> None:
    later = msgspec.json.encode({**msgspec.to_builtins(RECORD), "more": 1})
    assert msgspec.json.decode(later, type=DrillRecord) == RECORD
