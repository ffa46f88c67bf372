"""A failing run is made smaller as long as it fails."""

from __future__ import annotations

from real.history.checks import Violation
from real.history.faults import FAULTS, Step
from real.history.minimise import reduced, smallest
from real.history.run import Plan


async def test_a_failing_run_is_reduced_to_the_one_workload_and_the_steps_that_matter() -> None:
    steps = tuple(Step(float(at), action) for at, action in enumerate(["cut", "kill", "uncut", "start"]))
    plan = Plan(("home-1", "roam-2", "nomad-1"), "cut-kill", 1, steps=steps)

    async def fails(candidate: Plan) -> bool:
        actions = {step.action for step in candidate.schedule()}
        return "roam-2" in candidate.workloads and {"cut", "kill"} <= actions

    found = await smallest(plan, fails)
    assert found.workloads == ("roam-2",)
    assert [step.action for step in found.schedule()] == ["cut", "kill"]


def test_a_seed_gives_the_same_schedule_every_time_and_steps_are_in_order() -> None:
    for name in FAULTS:
        for seed in range(20):
            steps = Plan((), name, seed).schedule()
            assert steps == Plan((), name, seed).schedule()
            assert [step.at for step in steps] == sorted(step.at for step in steps), (name, seed)


def test_a_plan_is_read_from_the_header_of_its_history() -> None:
    plan = Plan(("home-1",), "cut", 3)
    assert Plan.of_header(plan.header()).schedule() == plan.schedule()


def test_workloads_that_kept_their_promises_are_left_out_first() -> None:
    plan = Plan(("home-1", "roam-2", "nomad-1"), "cut", 3)
    lost = [Violation("lost", "it")]
    assert reduced(plan, {"home-1": [], "roam-2": lost, "nomad-1": lost}).workloads == ("roam-2", "nomad-1")
    assert reduced(plan, {}).workloads == plan.workloads
