"""What became of messages, against counting them one by one."""

from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.drill.record import Phase, PhaseName
from gossamer.drill.run.ledger import Ledger

PHASES = (Phase("warm-up", 0, 5), Phase("split", 5, 12), Phase("heal", 12, 20))
NODES = ("a", "b", "c")
SIDE = {"a": "1", "b": "1", "c": "2"}
LATE = 2.0


def side_of(node: str) -> str:
    return SIDE[node]


def parted(phase: PhaseName, one: str, other: str) -> bool:
    return phase == "split" and (one == "c") != (other == "c")


class Sent(NamedTuple):
    """A message as a test wants it."""

    source: str
    target: str
    qos: int
    persistent: bool
    at: float
    acknowledged: float | None
    deliveries: tuple[float, ...]
    absent: bool


times = st.floats(0, 19.9, allow_nan=False)
sent = st.builds(
    Sent,
    source=st.sampled_from(NODES),
    target=st.sampled_from(NODES),
    qos=st.integers(0, 2),
    persistent=st.booleans(),
    at=times,
    acknowledged=st.none() | times,
    deliveries=st.lists(times, max_size=3).map(tuple),
    absent=st.booleans(),
)


def fill(messages: list[Sent]) -> Ledger:
    ledger = Ledger()
    streams = {}
    for message in sorted(messages, key=lambda m: m.at):
        key = message[:4]
        if key not in streams:
            streams[key] = ledger.open(*key[:3], persistent=key[3])
        stream = streams[key]
        number = ledger.note_sent(stream, message.at, absent=message.absent)
        if message.acknowledged is not None and message.qos:
            ledger.note_acknowledged(stream, number, message.at + message.acknowledged)
            # A broker may say so twice.
            ledger.note_acknowledged(stream, number, message.at + 99)
        for late in sorted(message.deliveries):
            ledger.note_delivered(stream.number, number, message.at + late)
    return ledger


def phase_of(at: float) -> PhaseName:
    return next(phase.name for phase in reversed(PHASES) if at >= phase.begin)


@settings(max_examples=60, deadline=None)
@given(st.lists(sent, max_size=40))
def test_tallies_are_what_counting_one_by_one_gives(messages: list[Sent]) -> None:
    expected: dict[tuple[object, ...], Counter[str]] = {}
    for m in messages:
        phase = phase_of(m.at)
        apart = m.absent or parted(phase, m.source, m.target)
        key = (SIDE[m.source], SIDE[m.target], phase, m.qos, m.persistent, apart)
        count = expected.setdefault(key, Counter())
        known = m.qos == 0 or m.acknowledged is not None
        count["sent"] += 1
        count["acknowledged"] += known
        count["delivered"] += bool(m.deliveries)
        count["late"] += bool(m.deliveries) and (m.at + min(m.deliveries)) - m.at > LATE
        count["lost"] += known and not m.deliveries
        count["doubled"] += max(0, len(m.deliveries) - 1)
    ledger = fill(messages)
    got = {}
    for row in ledger.tallies(PHASES, side_of=side_of, parted=parted, late_after=LATE):
        key = (row.source, row.target, row.phase, row.qos, row.persistent, row.parted)
        assert key not in got
        got[key] = Counter(
            {name: getattr(row, name) for name in expected.get(key, row.__struct_fields__[6:])}
        )
        got[key] = +got[key]
    assert got == {key: +count for key, count in expected.items()}
    assert ledger.owed == sum(count["lost"] for count in expected.values())
    assert ledger.sent.total() == len(messages)
    assert ledger.delivered.total() == sum(count["delivered"] for count in expected.values())


@settings(max_examples=40, deadline=None)
@given(st.lists(sent, max_size=30))
def test_every_message_is_in_the_sample_of_its_second(messages: list[Sent]) -> None:
    ledger = fill(messages)
    samples = ledger.samples(60.0, side_of=side_of)
    assert sum(sample.sent for sample in samples) == len(messages)
    assert sum(sample.delivered for sample in samples) == sum(bool(m.deliveries) for m in messages)
    for m in messages:
        [sample] = [s for s in samples if s.side == SIDE[m.source] and s.at == int(m.at)]
        assert sample.sent >= 1
    for sample in samples:
        assert 0 <= sample.latency_p50 <= sample.latency_p99


def test_what_comes_behind_a_later_one_is_out_of_order_and_a_copy_is_not() -> None:
    ledger = Ledger()
    stream = ledger.open("a", "b", 1, persistent=True)
    for at in range(4):
        ledger.note_sent(stream, at)
    ledger.note_acknowledged(stream, 2, 4.5)
    for sequence in (0, 2, 0, 1, 3):
        ledger.note_delivered(stream.number, sequence, 5.0)
    [row] = ledger.tallies(PHASES[:1], side_of=side_of, parted=parted, late_after=LATE)
    assert (row.delivered, row.doubled, row.disordered, row.waited) == (4, 1, 1, 2.5)


def test_what_nobody_sent_is_foreign() -> None:
    ledger = Ledger()
    stream = ledger.open("a", "b", 1, persistent=False)
    ledger.note_sent(stream, 1.0)
    ledger.note_delivered(stream.number, 1, 2.0)
    ledger.note_delivered(7, 0, 2.0)
    assert ledger.foreign == 2
    assert ledger.delivered.total() == 0
