"""What each kind of drill does, as a list of steps: see ``scripts.txt``."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gossamer.drill.record import Plan
from gossamer.drill.run.script import Script, Step, script_of
from gossamer.drill.stage.backend import LinkFault
from gossamer.errors import WrongValueError
from gossamer.faults import DRILLS, ShapeError

NODES = ("a", "b", "c")
CASES = Path(__file__).with_name("scripts.txt").read_text().strip().split("\n\n== ")[1:]


def plan(order: str) -> Plan:
    """What ``kind [shape] [setting=number …]`` orders."""
    kind, *words = order.split()
    given = dict(word.split("=") for word in words if "=" in word)
    shape = "".join(word for word in words if "=" not in word)
    [known] = [name for name in DRILLS if name == kind]
    settings = {name: float(value) for name, value in given.items()}
    return Plan(kind=known, shape=shape, nodes=NODES, seconds=10.0, settings=settings)


def of_fault(fault: LinkFault) -> str:
    numbers = [(name, getattr(fault, name)) for name in ("delay", "jitter", "loss")]
    what = [f"{name}={number:g}" for name, number in numbers if number]
    return " ".join([f"{fault.source}>{fault.target}", *(["cut"] if fault.cut else []), *what])


def of_step(step: Step) -> str:
    if step.action == "apply":
        return f"{step.text}: {', '.join(map(of_fault, step.faults))}" if step.faults else "lift"
    return " ".join([step.action, *step.nodes, *([f"{step.seconds:g}"] if step.seconds else [])])


def of_script(script: Script) -> str:
    pairs = sorted({"-".join(sorted(pair)) for pair in script.parted})
    assert {(b, a) for a, b in script.parted} == script.parted
    before = f"before: {'; '.join(map(of_step, script.before))}\n" if script.before else ""
    return (
        f"{before}split: {'; '.join(map(of_step, script.split))}\n"
        f"heal: {'; '.join(map(of_step, script.heal)) or 'nothing'}\n"
        f"sides: {' | '.join(' '.join(side.nodes) for side in script.sides)}\n"
        f"parted: {' '.join(pairs) or 'nobody'}"
    )


@pytest.mark.parametrize("case", CASES, ids=[case.partition("\n")[0] for case in CASES])
def test_a_drill_does_what_its_script_says(case: str) -> None:
    _, order, expected = case.split("\n", 2)
    script = script_of(plan(order))
    assert of_script(script) == expected
    # The net below is for drills that died, not for those that are late.
    assert all(step.seconds > 10.0 for step in script.split if step.faults)


@pytest.mark.parametrize(
    ("order", "error"),
    [("partition 3/2", ShapeError), ("kill 4", WrongValueError), ("pause x", WrongValueError)],
)
def test_what_does_not_fit_is_refused_before_anything_starts(order: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="3"):
        script_of(plan(order))


def test_two_nodes_are_too_few_for_a_quorum_to_be_left() -> None:
    with pytest.raises(WrongValueError, match="got 2, expected 3 or more for kill-owner"):
        script_of(replace(plan("kill-owner 1"), nodes=NODES[:2]))
