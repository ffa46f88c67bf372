"""``gossamer drill``: what people type and what they are shown. Drills themselves are tested elsewhere."""

import io
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gossamer.cli import ExitCode, app
from gossamer.cli.commands import drill
from gossamer.cli.commands.drill_suite import Screen, line_of, open_screen
from gossamer.drill import Progress
from gossamer.drill.record import (
    ClientDrop,
    Clients,
    DrillRecord,
    Mark,
    Phase,
    Plan,
    Speed,
    Tally,
    Verdict,
)

OF_ONE = ("kill", "pause", "clock", "disk", "kill-owner", "kill-quorum", "slow-disc", "disc-fault")
KINDS = ("partition", "flapping", "slow", "rolling", "coordinator", *OF_ONE)
NODES = tuple(f"node{number}@127.0.0.1" for number in (1, 2, 3))
PLAN = Plan(kind="partition", shape="2/1", nodes=NODES, load=200.0)


@pytest.fixture
def drills(monkeypatch):
    """The plans that would have been carried out; each breaks the promises that are in ``broken``."""
    found = SimpleNamespace(plans=[], broken=False, failure="", record=None)

    async def run(plan, *, keep, start_timeout, quiet):
        found.plans.append(plan)
        return found.record or DrillRecord(
            plan=plan,
            began_at=1.0,
            verdicts=(Verdict("nothing is lost", kept=not found.broken),),
            failure=found.failure,
        )

    monkeypatch.setattr(drill, "_run", run)
    return found


def invoke(*arguments):
    return CliRunner().invoke(app, ["drill", *arguments])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_command_that_needs_no_option(drills, kind):
    outcome = invoke(kind)
    assert outcome.exit_code == ExitCode.DONE, outcome.output
    [plan] = drills.plans
    assert (plan.kind, len(plan.nodes), plan.backend, plan.seconds) == (kind, 5, "gate", 20.0)
    shapes = {"rolling": "", **dict.fromkeys(OF_ONE, "5")}
    assert plan.shape == shapes.get(kind, "3/2"), "two halves, or the last node"
    assert "kept" in outcome.output


def test_what_is_typed_is_what_is_planned(drills):
    options = ["--nodes", "3", "--split", "1>2", "--for", "1m", "--load", "2000", "--seed", "7"]
    more = ["--delay", "300ms", "--jitter", "10ms", "--loss", "2%", "--warm-up", "1s", "--after", "2s"]
    invoke("slow", *options, *more, "--set", "cluster.autoheal=5s", "--backend", "netns")
    [plan] = drills.plans
    assert (len(plan.nodes), plan.shape, plan.seconds, plan.load, plan.seed) == (3, "1>2", 60.0, 2000.0, 7)
    assert (plan.warm_up, plan.after, plan.backend) == (1.0, 2.0, "netns")
    assert plan.settings == {
        "delay": 0.3,
        "jitter": 0.01,
        "loss": 0.02,
        "GOSSAMER_CLUSTER__AUTOHEAL": "5s",
    }
    invoke("clock", "--jump", "-10m", "--node", "2")
    assert (drills.plans[1].settings["jump"], drills.plans[1].shape) == (-600.0, "2")


def test_a_broken_promise_is_an_exit_code(drills):
    drills.broken = True
    assert invoke("partition").exit_code == ExitCode.PROMISE_BROKEN
    drills.broken, drills.failure = False, "not as before"
    outcome = invoke("partition")
    assert outcome.exit_code == ExitCode.PROMISE_BROKEN
    assert "not as before" in outcome.output


def test_the_record_goes_where_it_is_wanted(drills, tmp_path: Path):
    file, page = tmp_path / "drill.json", tmp_path / "drill.html"
    invoke("partition", "--json", str(file), "--html", str(page))
    assert json.loads(file.read_text())["plan"]["kind"] == "partition"
    assert "<html" in page.read_text()
    assert json.loads(invoke("partition", "--json", "-").stdout)["plan"]["shape"] == "3/2"


# -- what is shown


def test_a_mark_is_a_line():
    mark = Mark(7.123, NODES[0], "declared down", NODES[2], "unreachable")
    assert line_of(mark) == "    7.12 s  node1    declared down node3 (unreachable)"
    assert line_of(Mark(5.0, "", "fault applied", detail="cut 2/1")) == (
        "    5.00 s  drill    fault applied (cut 2/1)"
    )


def test_lines_come_one_by_one_and_clients_do_not_flood_them(capsys):
    with open_screen(quiet=False) as screen:
        screen.tell("split")
        for number in range(100):
            screen.tell(Mark(1.0, NODES[0], "client dropped", f"client{number}"))
        screen.tell(Mark(2.0, "", "fault lifted"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "--- split"
    assert "fault lifted" in lines[-1]
    assert len(lines) == 1 + 10 + 1 + 1


def test_the_end_shows_promises_figures_and_words(drills):
    drills.record = DrillRecord(
        plan=PLAN,
        began_at=1.0,
        traffic=(
            Tally(source="1,2", target="3", phase="split", qos=1, persistent=True, sent=40, acknowledged=39),
        ),
        clients=Clients(9, 18, (ClientDrop(3.0, "c", NODES[0], "reset", excused=True),)),
        speeds=(Speed("routes equal", 0.5, 6.0), Speed("healed", None)),
        verdicts=(Verdict("nothing is lost", kept=False, got="2 lost"), Verdict("x", kept=None)),
        failure="it stopped",
    )
    text = " ".join(invoke("partition").output.split())
    assert "nothing is lost BROKEN 2 lost x not tested" in text
    assert "Routes equal 0.5 s promised: 6 s Healed never" in text
    assert "Messages sent 40 39 acknowledged" in text
    assert "Clients dropped 0 of 27" in text
    assert "The drill could not be carried out to its end: it stopped" in text


def test_the_line_below_says_where_the_drill_is():
    now = SimpleNamespace(value=8.0)
    ledger = SimpleNamespace(sent=Counter(), delivered=Counter(), owed=12)
    screen = Screen(Console(file=io.StringIO()))
    screen.show(Progress(PLAN, step="connecting"))
    assert str(screen.__rich__()) == "connecting"
    progress = Progress(
        PLAN,
        step="split",
        now=lambda: now.value,
        phases=[Phase("warm-up", 0.0, 5.0)],
        drops=[
            ClientDrop(6.0, "c", NODES[0], "reset"),
            ClientDrop(6.0, "d", NODES[2], "reset", excused=True),
        ],
        load=SimpleNamespace(ledger=ledger),
    )
    screen.show(progress)
    assert str(screen.__rich__()) == "split 3 s: 0 sent/s, 0 delivered/s, 12 due, 1 clients dropped"
    ledger.sent[NODES[0], NODES[2]] += 50
    ledger.delivered[NODES[0], NODES[0]] += 30
    now.value = 9.0
    assert str(screen.__rich__()).startswith("split 4 s: 50 sent/s, 30 delivered/s")
