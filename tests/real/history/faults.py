"""What is done to a cluster: a table of named faults, each a schedule that its seed decides.

Nodes are named by what they are to the workloads: ``publisher`` is home of those that publish, ``subscriber``
of those that listen, ``third`` of neither; ``owner`` is wherever the first roaming session is at that moment.
``await`` stands for as long as it takes until what was started is back and all see each other; what comes
after is that much later. After the last step every fault is lifted and every node started; a schedule need
not do so itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

ROLES = {"publisher": 1, "subscriber": 2, "third": 3}
NAMES = (*ROLES, "owner")


@dataclass(frozen=True, slots=True)
class Step:
    at: float
    """Seconds after the workloads run."""
    action: str
    who: tuple[str, ...] = ()
    share: float = 1.0

    def __str__(self) -> str:
        share = f" {self.share:g}" if self.share < 1 else ""
        who = ("→" if "cut" in self.action else " ").join(self.who)
        return f"{self.at:.1f}s {self.action} {who}{share}".strip()


@dataclass(frozen=True, slots=True)
class Fault:
    """``small_disc``: the node whose disc can be filled. ``network``: needs namespaces. ``previous``: nodes
    are started with the release before at first, with this one from then on."""

    name: str
    says: str
    plan: Callable[[Random], list[Step]]
    network: bool = False
    small_disc: int = 0
    previous: bool = False


def _none(rng: Random) -> list[Step]:
    return [Step(12.0, "nothing")]


def _kill_of(role: str) -> Callable[[Random], list[Step]]:
    def plan(rng: Random) -> list[Step]:
        began = rng.uniform(2, 5)
        back = began + rng.choice([0.3, 2, 5, 9])
        return [Step(began, "kill", (role,)), Step(back, "start", (role,))]

    return plan


def _kill_fast(rng: Random) -> list[Step]:
    steps, at = [], rng.uniform(1, 3)
    for _ in range(5):
        who = (rng.choice(list(ROLES)),)
        steps.append(Step(at, "kill", who))
        steps.append(Step(at + rng.uniform(0.1, 1), "start", who))
        at += rng.uniform(2, 5)
    return steps


def _kill_two(rng: Random) -> list[Step]:
    who = tuple(rng.sample(list(ROLES), 2))
    began, apart = rng.uniform(2, 5), rng.choice([0, 0.5, 3])
    back = began + apart + rng.uniform(0.5, 6)
    return [
        Step(began, "kill", who[:1]),
        Step(began + apart, "kill", who[1:]),
        Step(back, "start", who[:1]),
        Step(back + rng.choice([0, 2]), "start", who[1:]),
    ]


def _kill_all(rng: Random) -> list[Step]:
    began = rng.uniform(4, 8)
    return [Step(began, "kill", tuple(ROLES)), Step(began + rng.uniform(0.5, 4), "start", tuple(ROLES))]


def _stop_all(rng: Random) -> list[Step]:
    began = rng.uniform(4, 8)
    return [Step(began, "stop", tuple(ROLES)), Step(began + rng.uniform(3, 6), "start", tuple(ROLES))]


def _pause(rng: Random) -> list[Step]:
    steps, at = [], rng.uniform(1, 4)
    for _ in range(2):
        who, back = (rng.choice(NAMES),), at + rng.choice([3, 4, 6, 9])
        steps += [Step(at, "pause", who), Step(back, "resume", who)]
        at = back + rng.uniform(2, 5)
    return steps


def _pause_long(rng: Random) -> list[Step]:
    who, began = (rng.choice(NAMES),), rng.uniform(2, 4)
    return [Step(began, "pause", who), Step(began + rng.uniform(15, 40), "resume", who)]


def _cut_off(rng: Random) -> tuple[str, list[str]]:
    lone = rng.choice(list(ROLES))
    return lone, [role for role in ROLES if role != lone]


def _cut(rng: Random) -> list[Step]:
    lone, others = _cut_off(rng)
    began = rng.uniform(2, 5)
    cuts = [Step(began, "cut", pair) for other in others for pair in ((lone, other), (other, lone))]
    return [*cuts, Step(began + rng.choice([2, 5, 10, 15]), "uncut")]


def _one_way(rng: Random) -> list[Step]:
    lone, others = _cut_off(rng)
    began, outward = rng.uniform(2, 5), rng.random() < 0.5
    cuts = [Step(began, "cut", (lone, other) if outward else (other, lone)) for other in others]
    return [*cuts, Step(began + rng.choice([2, 5, 10, 15]), "uncut")]


def _flap(rng: Random) -> list[Step]:
    lone, others = _cut_off(rng)
    steps, at = [], rng.uniform(2, 4)
    for _ in range(rng.randint(3, 6)):
        steps += [Step(at, "cut", pair) for other in others for pair in ((lone, other), (other, lone))]
        at += rng.uniform(0.5, 5)
        steps.append(Step(at, "uncut"))
        at += rng.uniform(0.5, 3)
    return steps


def _loss(rng: Random) -> list[Step]:
    share = rng.choice([0.05, 0.15, 0.3])
    pairs = [(a, b) for a in ROLES for b in ROLES if a != b]
    return [*(Step(2.0, "cut", pair, share) for pair in pairs), Step(2 + rng.uniform(8, 15), "uncut")]


def _cut_and_kill(rng: Random) -> list[Step]:
    steps = _cut(rng)
    heal = steps[-1].at
    victim = (rng.choice(list(ROLES)),)
    died = rng.uniform(steps[0].at + 0.5, heal + 2)
    return sorted(
        [*steps, Step(died, "kill", victim), Step(died + rng.uniform(0.5, 5), "start", victim)],
        key=lambda step: step.at,
    )


def _rolling(action: str) -> Callable[[Random], list[Step]]:
    def plan(rng: Random) -> list[Step]:
        steps, at = [], 2.0
        for role in rng.sample(list(ROLES), 3):
            steps += [Step(at, action, (role,)), Step(at, "start", (role,)), Step(at, "await")]
            at += rng.uniform(0.5, 4)
        return steps

    return plan


def _join(rng: Random) -> list[Step]:
    return [Step(rng.uniform(2, 4), "start", ("4",)), Step(rng.uniform(14, 18), "nothing")]


def _join_and_leave(rng: Random) -> list[Step]:
    joined = rng.uniform(2, 4)
    left = joined + rng.uniform(6, 12)
    return [Step(joined, "start", ("4",)), Step(left, "drain", ("4",))]


def _full_disc(rng: Random) -> list[Step]:
    began = rng.uniform(3, 5)
    steps = [Step(began, "fill"), Step(began + rng.uniform(4, 10), "unfill")]
    if rng.random() < 0.5:
        steps.insert(1, Step(began + 3, "kill", ("subscriber",)))
    return steps


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("none", "nothing happens", _none),
        Fault("kill-publisher", "kill -9 of the publishers' node", _kill_of("publisher")),
        Fault("kill-subscriber", "kill -9 of the subscribers' node", _kill_of("subscriber")),
        Fault("kill-owner", "kill -9 of the node where a roaming session is", _kill_of("owner")),
        Fault("kill-third", "kill -9 of the node that is home to neither", _kill_of("third")),
        Fault("kill-fast", "five kills, back at once, a few seconds apart", _kill_fast),
        Fault("kill-two", "kill -9 of two, at once or in turn", _kill_two),
        Fault("kill-all", "kill -9 of all at once", _kill_all),
        Fault("stop-all", "SIGTERM of all at once, as systemd does", _stop_all),
        Fault("pause", "SIGSTOP of one for 3 to 9 s, twice", _pause),
        Fault("pause-long", "SIGSTOP of one for 15 to 40 s", _pause_long),
        Fault("cut", "one node cut off from the others for 2 to 15 s", _cut, network=True),
        Fault("one-way", "one node not heard, or deaf, for 2 to 15 s", _one_way, network=True),
        Fault("flap", "one node cut off and back, 3 to 6 times", _flap, network=True),
        Fault("loss", "5 to 30 % of the packets between nodes lost", _loss, network=True),
        Fault("cut-kill", "a cut, and a node killed in it or just after", _cut_and_kill, network=True),
        Fault("rolling", "each node stopped and started in turn", _rolling("stop")),
        Fault("rolling-drain", "each node drained, stopped and started", _rolling("drain")),
        Fault("upgrade", "each node drained, and upgraded to this release", _rolling("drain"), previous=True),
        Fault("join", "a fourth node joins under load", _join),
        Fault("join-leave", "a fourth node joins and leaves under load", _join_and_leave),
        Fault("full-disc", "the disc of the subscribers' node is full", _full_disc, True, 2),
    )
}
