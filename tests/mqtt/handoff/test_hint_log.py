"""What is kept for a node that is away, and in what order and how often it gets it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.mqtt.handoff.hint_log import HintLog
from gossamer.mqtt.handoff.hints import Ask, Drop, Keep, Live, Lost, Over, Send, is_for


def still(records: bytes, seconds: float) -> tuple[bytes, int]:
    """Nothing expires but what begins with ``x``, after ten seconds."""
    return (b"", 1) if records[:1] == b"x" and seconds >= 10 else (records, 0)


def away(**options: Any) -> HintLog:
    hint_log = HintLog(refresh=still, **{"limit": 1000, "max_bytes": 10**6, **options})
    hint_log.generation = "g"
    hint_log.down()
    return hint_log


def numbers(actions: list[Any]) -> list[int]:
    return [action.hint.number for action in actions if isinstance(action, Send)]


def told(action: Any) -> str:
    """An action, or what else is told, in the words of a scenario."""
    match action:
        case Keep(hint):
            return f"keep {hint.number}{' live' * hint.live}"
        case Send(hint, records):
            return f"send {records.decode()}{' live' * hint.live}"
        case Drop(dropped):
            return f"drop {' '.join(map(str, dropped))}"
        case Lost(records, reason):
            return " ".join(["lost", *(x.decode() for x in records if x.strip(b".")), reason])
        case Ask() | Over() | Live():
            return type(action).__name__.lower()
        case bool():
            return "yes" if action else "no"
    return str(action)


class Script:
    """The steps of a scenario: each takes its words, and returns what is told."""

    def __init__(self) -> None:
        self.log = self.first = away()

    def hint_log(self, **options: int) -> None:
        self.log = self.first = away(**options)

    def theirs(self, **options: int) -> None:
        """From here on the steps are of another node's, until it is adopted."""
        self.log = away(**options)

    def adopt(self) -> list[Any]:
        theirs, self.log = self.log, self.first
        actions, changed = self.log.adopt(theirs.entries.values(), theirs.moved)
        return [*actions, *sorted(changed)]

    def restart(self) -> list[Any]:
        """The node that keeps has its disc alone, which is read in any order."""
        log = HintLog(refresh=still, limit=100, max_bytes=10**6, first=1 << 32)
        actions, changed = log.restore(list(reversed(self.log.entries.values())), "g", self.log.moved)
        self.log = log
        return [*actions, *sorted(changed)]

    def add(self, *records: str, count: int = 1, **options: int) -> list[Any]:
        return [x for record in records for x in self.log.add(record.encode(), count, 0.0, **options)]

    def fill(self, size: str) -> list[Any]:
        return self.log.add(b"." * int(size), 1, 0.0)

    def up(self) -> list[Any]:
        return self.log.up()

    def down(self) -> list[Any]:
        actions, changed = self.log.down()
        return [*actions, *sorted(changed)]

    def answered(self, *, generation: str = "g", taken: int = 0, frames: str = "", now: int = 0) -> list[Any]:
        pairs = (frame.split(":") for frame in frames.split(",") if frame)
        return self.log.answered(
            generation, taken, {int(session): int(frame) for session, frame in pairs}, float(now)
        )

    def confirmed(self, *sent: str) -> list[Any]:
        return [x for number in sent for x in self.log.confirmed(int(number), 0.0)]

    def settled(self) -> list[Any]:
        return self.log.settled()

    def gone(self, reason: str) -> list[Any]:
        return self.log.gone(reason)

    def adopted(self, *taken: str) -> list[Any]:
        return self.log.adopted(map(int, taken), 0.0)

    def moves(self, *clients: str) -> list[Any]:
        return [self.log.moves(client) for client in clients]

    def returns(self, client: str) -> list[Any]:
        return [self.log.returns(client)]

    def moved(self, client: str) -> list[Any]:
        return [client in self.log.moved]

    def gets(self, client: str) -> list[Any]:
        """The numbers of what is for a session."""
        return [" ".join(str(n) for n in self.log.entries if is_for(client, n, self.log.moved))]

    def entries(self) -> list[Any]:
        return [b" ".join(hint.records for hint in self.log.entries.values()).decode()]

    def count(self, name: str) -> list[Any]:
        return [self.log.counts[name]]

    def overflowed(self) -> list[Any]:
        return [self.log.overflowed]

    def waiting(self) -> list[Any]:
        return [self.log.state, f"{self.log.messages} messages", f"{self.log.bytes} bytes"]


def scenarios() -> list[Any]:
    _, *blocks = Path(__file__).with_name("hint_log.txt").read_text().split("\n\n")
    titled = [block.strip().splitlines() for block in blocks]
    return [pytest.param(lines, id=title) for title, *lines in titled]


@pytest.mark.parametrize("lines", scenarios())
def test_what_is_kept_comes_in_order_and_once(lines: list[str]):
    script = Script()
    for line in lines:
        step, arrow, expected = line.strip().partition("->")
        name, *words = step.split()
        options = dict(word.split("=") for word in words if "=" in word)
        done = getattr(script, name)(
            *(word for word in words if "=" not in word),
            **{key: int(value) if value.isdigit() else value for key, value in options.items()},
        )
        if arrow:
            assert ", ".join(map(told, done)) == expected.strip(), line


def test_only_so_much_is_on_its_way_at_once():
    hint_log = away(limit=10**6, max_bytes=10**9)
    for _ in range(2500):
        hint_log.add(b"1", 1, 0.0)
    hint_log.up()
    flying = numbers(hint_log.answered("g", 0, {}, 0.0))
    got = len(flying)
    assert got == 1000
    while flying:
        flying += numbers(hint_log.confirmed(flying.pop(0), 0.0))
        assert len(flying) <= 1000
    assert hint_log.settled() == [Live()]


class Peer:
    """A node that is cut off now and then, with what it took."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.taken = 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["add", "cut", "back", "answer", "take", "take and cut", "confirm"]), max_size=60
    )
)
def test_whenever_it_is_cut_off_a_node_gets_all_in_order_and_once(events: list[str]):
    hint_log, peer = away(), Peer()
    way: list[Any] = []
    flown: list[int] = []
    count = 0

    def do(actions: list[Any]) -> None:
        way.extend(action for action in actions if isinstance(action, Send))

    def take() -> None:
        hint = way.pop(0).hint
        assert hint.number > peer.taken
        peer.got.append(hint.records)
        peer.taken = hint.number
        flown.append(hint.number)

    for event in [*events, "cut", "back", "answer"]:
        if event == "add":
            count += 1
            do(hint_log.add(b"%d" % count, 1, 0.0))
        elif event == "back" and hint_log.state == "away":
            do(hint_log.up())
        elif event == "answer" and hint_log.state == "asking":
            do(hint_log.answered("g", peer.taken, {}, 0.0))
        elif event.startswith("take") and way:
            take()
        elif event == "confirm" and flown:
            do(hint_log.confirmed(flown.pop(0), 0.0))
        if event.endswith("cut"):
            way.clear()
            flown.clear()
            do(hint_log.down()[0])
    while way or flown:
        if way:
            take()
        do(hint_log.confirmed(flown.pop(0), 0.0))
    assert peer.got == [b"%d" % n for n in range(1, count + 1)]
    assert hint_log.settled() == [Live()]
