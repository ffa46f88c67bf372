"""Membership from ten to a thousand members, simulated: what grows with their number, and how.

    python bench/gossip_scale.py                                   10 to 1,000 members: two minutes
    python bench/gossip_scale.py --sizes 10,30 --rest 5 --kills 1  a quick look
    python bench/gossip_scale.py --plot docs/gossip-scale.svg

Rules: 1. Time is virtual and the network seeded: a row is the same on every machine; only the column ``cpu``
is not.  2. All members but the first join through the first, all in the same instant.  3. A death counts from
the last breath until the *last* survivor has declared it; ``silent`` is a machine without power, which does
not even refuse connections.  4. Traffic at rest counts datagrams, headers and streams of one member, sent.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gossamer.gossip import MemberDown, MemberSuspect
from tests.gossip.swarm import Swarm


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds, and bytes a member."""

    members: int
    join: float
    join_bytes: float
    first: float
    killed: float
    silent: float
    spread: float
    rest: float
    wrong: int
    cpu: float


def measure(size: int, *, kills: int, rest: float, seed: int = 1) -> Row:
    """One cluster's life."""
    began = time.process_time()
    swarm = Swarm(seed=seed)
    hosts = [swarm.start(f"node{number}") for number in range(size)]
    for host in hosts[1:]:
        swarm.join(host, hosts[0])
    if not swarm.run(120, until=swarm.complete, step=0.25):
        raise SystemExit(f"{size} members do not know each other after 120 s; seed {seed}")
    join = swarm.now - 1000

    def sent() -> int:
        return sum(host.bytes + host.stream_bytes for host in hosts)

    join_bytes = sent() / size
    swarm.run(20)
    before = sent()
    swarm.run(rest)
    rate = (sent() - before) / rest / size
    wrong = sum(len(host.saw(MemberSuspect)) for host in hosts)
    worst = {False: 0.0, True: 0.0}
    firsts, spreads = [], []
    for turn in range(2 * kills):
        power = turn % 2 == 1
        victim = swarm.rng.choice(swarm.live()[1:])
        for host in hosts:
            host.events.clear()
        start = swarm.now
        swarm.kill(victim, power=power)
        swarm.run(60, until=swarm.complete, step=0.05 if size <= 300 else 0.2)
        downs = [at for host in swarm.live() for at, _ in host.saw(MemberDown)]
        worst[power] = max(worst[power], max(downs) - start)
        firsts.append(min(downs) - start)
        spreads.append(max(downs) - min(downs))
        swarm.run(3)
    return Row(
        members=size,
        join=join,
        join_bytes=join_bytes,
        first=sum(firsts) / len(firsts),
        killed=worst[False],
        silent=worst[True],
        spread=sum(spreads) / len(spreads),
        rest=rate,
        wrong=wrong,
        cpu=time.process_time() - began,
    )


HEAD = (
    "members   join s  join KB/member  first verdict s  killed, all s  silent, all s  spread s  rest B/s"
    "  wrong"
)


def line(row: Row) -> str:
    """A row as text."""
    return (
        f"{row.members:7} {row.join:8.2f} {row.join_bytes / 1000:15.1f} {row.first:16.2f} {row.killed:14.2f} "
        f"{row.silent:14.2f} {row.spread:9.2f} {row.rest:9.0f} {row.wrong:6}"
    )


def plot(rows: list[Row]) -> str:
    """Seconds over the logarithm of the members: what grows with log N is a straight line."""
    width, height, left, bottom = 640, 360, 60, 300
    top = max(max(row.killed, row.silent, row.join) for row in rows) * 1.15
    low, high = math.log10(rows[0].members), math.log10(rows[-1].members)

    def x(members: int) -> float:
        return left + (math.log10(members) - low) / max(high - low, 1e-9) * (width - left - 150)

    def y(seconds: float) -> float:
        return bottom - seconds / top * (bottom - 30)

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12"><title>Gossip, by members</title><desc>Seconds until the slowest survivor knew of a '
        "death, and until all had joined, over the number of members.</desc>"
        '<rect width="100%" height="100%" fill="white"/>'
    )
    parts = [
        head,
        f'<text x="{left}" y="18">seconds, the slowest survivor, over members (logarithmic)</text>',
    ]
    parts += [
        f'<path d="M{left} {y(second):.1f}H{width - 150}" stroke="#ddd"/>'
        f'<text x="{left - 8}" y="{y(second) + 4:.1f}" text-anchor="end">{second}</text>'
        for second in range(int(top) + 1)
    ]
    parts += [
        f'<text x="{x(row.members):.1f}" y="{bottom + 18}" text-anchor="middle">{row.members}</text>'
        for row in rows
    ]
    lines = (
        ("silent", "#b22", "power lost"),
        ("killed", "#26a", "killed"),
        ("first", "#a80", "first verdict"),
        ("spread", "#393", "spread of verdict"),
        ("join", "#777", "all join at once"),
    )
    for at, (name, colour, title) in enumerate(lines):
        points = " ".join(f"{x(row.members):.1f},{y(getattr(row, name)):.1f}" for row in rows)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{width - 140}" y="{50 + 20 * at}" fill="{colour}">{title}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", default="10,30,100,300,1000")
    parser.add_argument("--kills", type=int, default=3, help="deaths of each kind a size")
    parser.add_argument("--rest", type=float, default=60.0, help="simulated seconds at rest")
    parser.add_argument("--plot", type=Path, help="where to write the plot")
    options = parser.parse_args()
    print(HEAD + "  (cpu s)")
    rows = []
    for size in map(int, options.sizes.split(",")):
        rows.append(measure(size, kills=options.kills, rest=options.rest))
        print(f"{line(rows[-1])}  {rows[-1].cpu:7.1f}", flush=True)
    if options.plot:
        options.plot.write_text(plot(rows))


if __name__ == "__main__":
    main()
