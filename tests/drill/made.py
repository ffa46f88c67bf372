"""A record of a drill that never was: five nodes, split 3/2, everything as promised."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product

from gossamer.drill.record import (
    Clients,
    DrillRecord,
    Heal,
    Mark,
    NodeEnd,
    Phase,
    Plan,
    Said,
    Sample,
    Side,
    Speed,
    Tally,
)
from gossamer.drill.report.copies import COMMITS, DAMAGED, PRESENT
from gossamer.drill.stage.backend import LinkFault
from gossamer.faults import DrillKind


def cut_between(left: Sequence[str], right: Sequence[str]) -> list[LinkFault]:
    """Both ways, every node of ``left`` and every one of ``right``."""
    pairs = [(a, b) for a in left for b in right]
    return [LinkFault(a, b, cut=True) for one, other in pairs for a, b in ((one, other), (other, one))]


NODES = tuple(f"node{number}@127.0.0.1" for number in range(1, 6))
LEFT, RIGHT = Side("1,2,3", NODES[:3]), Side("4,5", NODES[3:])
CUT, LIFTED, HEALED, END = 5.0, 25.0, 44.2, 50.0
PHASES = (
    Phase("warm-up", 0.0, CUT),
    Phase("split", CUT, LIFTED),
    Phase("heal", LIFTED, HEALED),
    Phase("after", HEALED, END),
)


def marks(seed: int = 1) -> tuple[Mark, ...]:
    """As nodes tell of a split and its heal."""
    rng = random.Random(seed)
    found = [Mark(CUT, "", "fault applied", detail="cut 3/2"), Mark(LIFTED, "", "fault lifted")]
    for mine, theirs in ((LEFT, RIGHT), (RIGHT, LEFT)):
        for node in mine.nodes:
            for peer in theirs.nodes:
                found += [
                    Mark(CUT + rng.uniform(0.8, 1.4), node, "suspected", peer),
                    Mark(CUT + rng.uniform(2.6, 3.9), node, "declared down", peer),
                    Mark(LIFTED + rng.uniform(0.6, 2.2), node, "saw the return", peer),
                    Mark(LIFTED + rng.uniform(5.3, 5.5), node, "confirmed", peer),
                ]
            found.append(Mark(LIFTED + rng.uniform(3.2, 4.9), node, "routes equal"))
            found.append(Mark(HEALED - rng.uniform(0.0, 0.3), node, "healed"))
    found += [Mark(HEALED - 1.6, node, "restarted store") for node in RIGHT.nodes]
    found.append(Mark(HEALED - 2.0, NODES[0], "plan made", detail="restart 4,5"))
    return tuple(sorted(found, key=lambda mark: mark.at))


def traffic(sides: Sequence[Side] = (LEFT, RIGHT)) -> tuple[Tally, ...]:
    """For every pair of sides, phase, quality of service and kind of session."""
    rows = []
    for source, target, phase in product(sides, sides, PHASES):
        parted = source is not target and phase.name == "split"
        for qos, persistent in product((0, 1, 2), (False, True)):
            sent = int((phase.end - phase.begin) * 10 * len(target.nodes)) + qos
            came = sent if persistent or not parted else 0
            late = sent if parted and persistent else 0
            numbers = {
                "sent": sent,
                "acknowledged": sent,
                "delivered": came,
                "late": late,
                "lost": sent - came,
            }
            rows.append(Tally(source.name, target.name, phase.name, qos, persistent, parted, **numbers))
    return tuple(rows)


def samples() -> tuple[Sample, ...]:
    """Second by second; who is parted hears less, and much at once when it is over."""
    rng = random.Random(2)
    found = []
    for second, (side, share) in product(range(int(END)), ((LEFT, 0.6), (RIGHT, 0.4))):
        parted = CUT <= second < LIFTED
        rate = 2000 * share
        burst = 8 * rate * math.exp(-(second - LIFTED)) if LIFTED <= second < LIFTED + 6 else 0.0
        heard = rate * (share if parted else 1.0) + burst + rng.uniform(-20, 20)
        late = 0.004 + rng.uniform(0, 0.002) + (4.0 if burst > rate else 0.0)
        found.append(Sample(float(second), side.name, int(rate), int(heard), late, late * 3))
    return tuple(found)


def record(**changes: object) -> DrillRecord:
    """The record; ``changes`` are fields that differ."""
    tables = {f"routes of {name}": "30 rows 1f2e3d" for name in NODES} | {"retained of node1": "4 rows 77"}
    values: dict[str, object] = {
        "plan": Plan(kind="partition", shape="3/2", nodes=NODES, load=2000.0),
        "began_at": 1_790_000_000.0,
        "seconds": END,
        "sides": (LEFT, RIGHT),
        "phases": PHASES,
        "marks": marks(),
        "traffic": traffic(),
        "samples": samples(),
        "clients": Clients(publishers=5, subscribers=30),
        "heals": (
            Heal(
                plan="p1",
                coordinator=NODES[0],
                survivors=LEFT.nodes,
                reloaded=RIGHT.nodes,
                healed_at=HEALED,
                quarantined=10,
            ),
        ),
        "conflicts": 10,
        "merged": 10,
        "ends": tuple(NodeEnd(name, NODES, dict(tables)) for name in NODES),
        "speeds": (
            Speed("all nodes of both sides know of the split", 3.9, 5.0),
            Speed("connectivity back to all routes equal", 4.9, 6.0),
            Speed("connectivity back to healed", 19.2, None, "5 nodes healed"),
        ),
        "machine": {"cores": 2, "python": "3.11.7", "gossamer": "0.1"},
    }
    return DrillRecord(**{**values, **changes})  # type: ignore[arg-type]


FOUR, FIFTH = Side("1,2,3,4", NODES[:4]), Side("5", NODES[4:])
MOVED = ("drill-sub-5-1p", "drill-sub-5-2p")
SAID: dict[str, tuple[Said, ...]] = {
    "kill-quorum": tuple(Said(20.0, NODES[4], name, "why") for name in ("no_quorum", "sessions_behind")),
    "slow-disc": (Said(20.0, NODES[4], COMMITS, "30 commits took 0.31 s each", 0.31),),
    "disc-fault": (Said(40.0, NODES[4], DAMAGED, "1.wal, byte 512: got a head that does not fit"),),
}


def of_fifth(kind: DrillKind, **changes: object) -> DrillRecord:
    """A drill of the fifth node, in which all went well."""
    lone = kind == "kill-quorum"
    killed = NODES[:4] if lone else () if kind == "slow-disc" else NODES[4:]
    seen = [(NODES[4], name) if lone else (name, NODES[4]) for name in NODES[:4] if killed]
    found = [Mark(CUT, name, "process killed") for name in killed]
    found += [Mark(CUT + 3.0, node, "declared down", peer) for node, peer in seen]
    found += [Mark(LIFTED, name, "process started") for name in killed]
    if kind == "kill-owner":
        found += [Mark(CUT + 2.0, NODES[0], "client back", client, PRESENT) for client in MOVED]
    if kind == "disc-fault":
        found += [Mark(CUT, NODES[4], "bit flipped"), Mark(LIFTED + 4.0, "", "copies whole")]
    values: dict[str, object] = {
        "plan": Plan(kind=kind, shape="5", nodes=NODES),
        "sides": (FOUR, FIFTH),
        "marks": tuple(sorted(found, key=lambda mark: mark.at)),
        "traffic": traffic((FOUR, FIFTH)),
        "clients": Clients(5, 30, moved=MOVED if kind == "kill-owner" else ()),
        "said": SAID.get(kind, ()),
        "heals": (),
        "conflicts": 0,
    }
    return record(**{**values, **changes})
