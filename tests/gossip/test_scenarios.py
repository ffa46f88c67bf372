"""Clusters of state machines by script: who dies, starts, leaves and is cut off, and who knows of it.

A block is one scenario, opened by a sentence on what it shows. Members are numbers, or names. After ``=>``
stands what the others know, where a line asks for it; with several seeds, all of them say the same.

::

    grow N [seed=1,2] [OPTION=…]     N members that know each other; options of the swarm or of gossip
    kill 3 [power] [links]     freeze 3 SECONDS     run SECONDS     split 1 2 | 3 4     heal
    close udp 1 2 …     no datagrams between 1 and the others; ``both``: nothing     lose PART of all
    start 3 [incarnation=1] [at=10.7.7.7]     twin 3 ADDRESS     of the same name, called ``twin`` here
    join 3 1     leave 3     remove 3 [finally]: by member 1     answer join 3     what it got
    complete in SECONDS     whether each that runs knows just the others that run, by then
    sees [of 3] STATUS     whom each has as ONLINE, SUSPECT or OFFLINE: sets of names, each once
    forget     what follows counts from here
    saw KIND [of 3]     what members were told, each thing once     times KIND     and how often
    hinted KIND …       whether at least these partition hints were given
    tried by 3          who is down for 3, and tried again
"""

from __future__ import annotations

import ast
import random
from pathlib import Path
from typing import Any

from swimprotocol.status import Status

from gossamer.config import GossipConfig
from gossamer.gossip import (
    ForcedOut,
    JoinResult,
    MemberAlive,
    MemberDown,
    MemberLeft,
    MemberSuspect,
    MemberUp,
    NameConflict,
    PartitionHint,
)
from tests.gossip.swarm import Host, Swarm, grow
from tests.scripts import commands, compare, scripted

KINDS = (ForcedOut, MemberAlive, MemberDown, MemberLeft, MemberSuspect, MemberUp, NameConflict, PartitionHint)


@scripted(Path(__file__).parent / "scenarios")
def test_scenario(file: Path, block: str) -> None:
    lines = list(commands(block))
    seeds = next((word for word in lines[1] if word.startswith("seed=")), "seed=1")
    for seed in seeds.removeprefix("seed=").split(","):
        scene = Scene(int(seed))
        compare(file, block, [scene.run(*words) for words in lines])


def options_of(words: tuple[str, ...]) -> dict[str, Any]:
    return {key: _value(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}


def _value(word: str) -> Any:
    try:
        return ast.literal_eval(word)
    except (SyntaxError, ValueError):
        return word


class Scene:
    """A swarm, and where in time the present line begins to count."""

    def __init__(self, seed: int) -> None:
        self.seed, self.since = seed, 0.0

    def run(self, verb: str = "", *words: str) -> str:
        """Carry out one line."""
        said = getattr(self, f"do_{verb}")(*words) if verb else None
        return "" if said is None else str(said)

    def host(self, word: str) -> Host:
        return self.swarm.hosts[f"node{word}" if word.isdigit() else word]

    def do_grow(self, size: str, *words: str) -> None:
        given = options_of(words) | {"seed": self.seed}
        settings = {key: given.pop(key) for key in list(given) if key in GossipConfig.model_fields}
        mtu = given.pop("path_mtu", 65_535)
        self.swarm = Swarm(settings=GossipConfig(**settings), **given)
        self.swarm.path_mtu = mtu
        grow(self.swarm, int(size))

    def do_kill(self, who: str, *how: str) -> None:
        links = list(self.swarm.hosts.values()) if "links" in how else []
        self.swarm.kill(self.host(who), power="power" in how, links=links)

    def do_freeze(self, who: str, seconds: str) -> None:
        self.swarm.freeze(self.host(who), float(seconds))

    def do_run(self, seconds: str) -> None:
        self.swarm.run(float(seconds))

    def do_start(self, who: str, *words: str) -> None:
        options = options_of(words)
        address = (options.pop("at"), 7946) if "at" in options else None
        self.swarm.start(f"node{who}" if who.isdigit() else who, address=address, **options)

    def do_twin(self, who: str, at: str) -> None:
        one = self.host(who)
        two = self.swarm.start(one.name, address=(at, 7946))
        self.swarm.hosts |= {one.name: one, "twin": two}

    def do_join(self, who: str, seed: str) -> None:
        self.swarm.join(self.host(who), self.host(seed))

    def do_leave(self, who: str) -> None:
        self.swarm.leave(self.host(who))

    def do_remove(self, who: str, *how: str) -> object:
        return self.swarm.force_leave(self.host("1"), f"node{who}", final="finally" in how)

    def do_answer(self, request: str, who: str) -> object:
        answer = self.host(who).answers[request]
        if isinstance(answer, JoinResult):
            return ", ".join(["joined"] * bool(answer.joined) + sorted(answer.failed.values()))
        return answer

    def do_split(self, *words: str) -> None:
        groups = [group.split() for group in " ".join(words).split("|")]
        self.swarm.split(*([self.host(who) for who in group] for group in groups))

    def do_close(self, path: str, one: str, *others: str) -> None:
        ends = self.host(one), [self.host(other) for other in others]
        self.swarm.udp_open = lambda a, b: (
            not ((a is ends[0] and b in ends[1]) or (b is ends[0] and a in ends[1]))
        )
        if path == "both":
            self.swarm.tcp_open = self.swarm.udp_open

    def do_lose(self, part: str) -> None:
        self.swarm.loss = float(part)

    def do_heal(self) -> None:
        self.swarm.heal()

    def do_complete(self, _in: str, seconds: str) -> str:
        return "yes" if self.swarm.run(float(seconds), until=self.swarm.complete) else "no"

    def do_sees(self, *words: str) -> str:
        status = Status[words[-1]]
        hosts = [self.host(words[1])] if words[0] == "of" else self.swarm.live()
        views = {" ".join(sorted(name.removeprefix("node") for name in host.sees(status))) for host in hosts}
        return " | ".join(sorted(views))

    def do_forget(self) -> None:
        self.since = self.swarm.now

    def told(self, kind: str, who: str = "") -> list[str]:
        (of_kind,) = [known for known in KINDS if known.__name__ == kind]
        hosts = [self.host(who)] if who else self.swarm.hosts.values()
        return [_words(host, event) for host in hosts for at, event in host.saw(of_kind) if at >= self.since]

    def do_saw(self, kind: str, _of: str = "", who: str = "") -> str:
        return ", ".join(sorted(set(self.told(kind, who))))

    def do_hinted(self, *kinds: str) -> str:
        return "yes" if set(kinds) <= set(self.told("PartitionHint")) else "no"

    def do_tried(self, _by: str, who: str) -> str:
        entry = self.host(who).swim.table.any_down(random.Random(0))
        return "" if entry is None else entry.name.removeprefix("node")

    def do_times(self, kind: str) -> int:
        return len(self.told(kind))


def _words(host: Host, event: object) -> str:
    match event:
        case PartitionHint(kind):
            return kind
        case ForcedOut(by):
            return f"{host.name} by {by}"
        case NameConflict(name, holder):
            return f"{name} of {holder.address}"
        case MemberDown(member, reason):
            return f"{member.name} {reason}"
        case MemberLeft(member=member):
            return f"{member.name} removed" if member.removed else member.name
    name: str = event.member.name  # type: ignore[attr-defined]
    return name
