"""``gossamer drill``: break a cluster of real processes on purpose, under load, and see how it heals.

The cluster is created for the drill and removed after it; no other one is touched. (``drill start`` has a
node do that, or break the cluster that runs.) Each kind of drill is a command with the same options and one
or two of its own, so the commands are made from a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from msgspec import to_builtins

from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import Parameters, argument, asks, option, with_parameters
from gossamer.cli.commands.drill_suite import KINDS, BackEnd, Seed, check_files, deliver, open_screen, suite
from gossamer.cli.commands.runs import ON_NODE, RUN_TIMEOUT, Wait, add_runs, result_parts, start_run
from gossamer.cli.errors import ExitCode, OptionError
from gossamer.cli.local.interrupt import interruptible, loop_factory
from gossamer.cli.render.output import note
from gossamer.cli.render.show import Part, Report
from gossamer.cli.root import example
from gossamer.config import format_duration
from gossamer.drill.record import Plan, Setting, record_json
from gossamer.faults import DRILLS, Drill, DrillKind, DrillSetting
from gossamer.options import duration

if TYPE_CHECKING:
    from gossamer.drill.record import DrillRecord

drill = typer.Typer(no_args_is_help=True)
_HERE = "On this machine, with a cluster of its own"
"""Panel of the help."""

MAX_NODES = 32
SPLITS = completion.known("3/2", "2/1", "2/2/1", "1>2", "1-2")


# -- what people type


def _signed(text: str) -> float:
    """A duration with a sign."""
    return -duration(text[1:]) if text.startswith("-") else duration(text.removeprefix("+"))


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"got {text!r}, expected a share such as 5% or 0.05")
    return value


def _time(
    default: str, name: str, says: str, parser: Callable[[str], float] = duration
) -> tuple[object, object]:
    return float, option(default, name, says, parser=parser, metavar="DURATION")


def _setting(one: DrillSetting) -> tuple[object, object]:
    """The option for what only some kinds take."""
    name, says = f"--{one.name}", f"{one.says}."
    if one.unit == "share":
        return float, option(f"{one.default:.0%}", name, says, parser=_share, metavar="SHARE")
    return _time(format_duration(one.default), name, says, duration if one.unit == "s" else _signed)


_PLACES: Mapping[str, Parameters] = {
    "split": {
        "split": (
            str,
            option(
                "",
                "--split",
                "Sides 3/2, 2/2/1; one way 1>2; one link 1-2 (default: two halves)",
                SPLITS,
                show_default=False,
            ),
        )
    },
    "node": {
        "node": (
            int | None,
            option(None, "--node", "Its number (default: the last one)", min=1, show_default=False),
        )
    },
    "all": {},
}
"""Target of each kind of drill."""
_COMMON: Parameters = {
    "nodes": (int, typer.Option(5, "--nodes", "-n", min=2, max=MAX_NODES, help="How many.")),
    "seconds": _time("20s", "--for", "How long the fault holds."),
    "load": (float, option(500.0, "--load", "Messages a second, in all.", min=0, max=50_000)),
    "backend": (BackEnd, "gate"),
    "seed": (Seed, 0),
    "warm_up": _time("5s", "--warm-up", "Load before the fault."),
    "after": _time("5s", "--after", "Load after the heal."),
    "configure": (
        list[str] | None,
        option(None, "--set", "Configure the nodes: cluster.autoheal=5s", metavar="KEY=VALUE"),
    ),
    "json": (
        Path | None,
        option(None, "--json", "Write the record there as JSON, - prints it.", metavar="FILE"),
    ),
    "html": (Path | None, option(None, "--html", "Write a page with a chart there.", metavar="FILE")),
    "keep": (bool, option(False, "--keep", "Keep logs and data of all nodes.")),
    "timeout": _time("60s", "--timeout", "How long the cluster may take to start."),
}


_EXAMPLES: Mapping[DrillKind, tuple[str, ...]] = {
    "partition": (
        "--nodes 5 --split 3/2 --for 30s --html report.html",
        "--split 1-2 --set cluster.autoheal=5s --json record.json",
    ),
    "flapping": ("--split 2/1 -n 3 --period 2s",),
    "slow": ("--delay 300ms --loss 5%",),
    "kill": ("--node 2",),
    "pause": ("--node 2 --for 10s",),
    "rolling": ("--nodes 3",),
    "clock": ("--jump -10m",),
    "coordinator": ("--split 3/2",),
    "disk": ("--node 1",),
    "kill-owner": ("--nodes 3 --html report.html",),
    "kill-quorum": ("--nodes 3 --node 1",),
    "slow-disc": ("--nodes 3 --delay 500ms",),
    "disc-fault": ("--nodes 3 --node 2",),
}


def _add(kind: DrillKind, row: Drill) -> None:
    """Add the command for one kind of drill."""
    settings = {one.name: _setting(one) for one in row.settings}

    def command(**options: object) -> None:
        raise typer.Exit(_carry_out(_plan(kind, options, [*settings]), options))

    command.__doc__ = row.says
    made = with_parameters(command, {**_PLACES[row.at], **_COMMON, **settings})
    drill.command(kind, rich_help_panel=_HERE)(example(*_EXAMPLES[kind])(made))


for _kind, _row in DRILLS.items():
    _add(_kind, _row)
drill.command(rich_help_panel=_HERE)(suite)


@drill.command(rich_help_panel=ON_NODE)
@asks(
    "partition --here --split 2/1 --for 15s --wait",
    "kill --nodes 3 --node node2@10.0.0.2",
    node=True,
    timeout=RUN_TIMEOUT,
)
def start(
    client: ApiClient,
    json: bool,
    kind: str = argument(..., "KIND", "partition, kill, slow, …", KINDS),
    here: bool = option(
        False, "--here", "Split this very cluster (partition only; needs an administrator and drill.faults)."
    ),
    split: str | None = option(None, "--split", "2/1; one way 1>2; one link 1-2.", SPLITS),
    hold: float = option("10s", "--for", "How long the fault holds.", parser=duration, metavar="DURATION"),
    nodes: int | None = typer.Option(None, "--nodes", "-n", min=2, help="Of its own cluster (default: 3)."),
    load: float | None = option(None, "--load", "Messages a second (default: 100).", min=0),
    number: int | None = option(None, "--number", "Of the node to kill, pause … (default: the last).", min=1),
    wait: Wait = False,
) -> Report:
    """Start a drill on the machine of a node, on a cluster of its own; with --here on the running cluster."""
    body = {"kind": kind, "seconds": hold, "split": split, "nodes": nodes, "load": load, "node": number}
    body["on"] = "this-cluster" if here else None
    _check(body)
    return start_run(client, "drills", body, runs="drills", json=json, wait=wait)


def _check(body: Row) -> None:
    """See that a node could carry out what is ordered."""
    from gossamer.api import DrillRequest, check_here, plan_of

    given = {name: value for name, value in body.items() if value is not None}
    ordered = DrillRequest(**values.order(DrillRequest, given, {"seconds": "--for", "node": "--number"}))
    if ordered.on == "this-cluster":
        check_here(ordered)
    else:
        plan_of(ordered)


add_runs(
    drill,
    "drill",
    "drills",
    completion.drills,
    listed="List the drills that were started at a node, the newest first.",
    stopped="Stop a drill and heal what it broke; or delete one that has ended.",
)


def _plan(kind: DrillKind, options: dict[str, Any], settings: Sequence[str]) -> Plan:
    from gossamer.drill import unnamed

    nodes: int = options["nodes"]
    shape = ""
    if "split" in options:
        shape = options["split"] or f"{nodes - nodes // 2}/{nodes // 2}"
    elif "node" in options:
        shape = str(options["node"] or nodes)
    same = ("backend", "seconds", "load", "seed", "warm_up", "after")
    return Plan(
        kind=kind,
        shape=shape,
        nodes=unnamed(nodes),
        settings={name: options[name] for name in settings} | _configured(options["configure"] or []),
        **{name: options[name] for name in same},
    )


def _configured(pairs: Sequence[str]) -> dict[str, Setting]:
    """Convert ``cluster.autoheal=5s`` to its environment variable."""
    found: dict[str, Setting] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.replace(".", "").replace("_", "").isalnum():
            raise OptionError("--set", got=pair, expected="KEY=VALUE such as cluster.autoheal=5s")
        found["GOSSAMER_" + key.strip().upper().replace(".", "__")] = value.strip()
    return found


# -- one drill


def _carry_out(plan: Plan, options: dict[str, Any]) -> ExitCode:
    from gossamer.drill import html as page_of

    json: Path | None = options["json"]
    html: Path | None = options["html"]
    quiet = str(json) == "-"
    check_files(json=json, html=html)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        record = runner.run(_run(plan, keep=options["keep"], start_timeout=options["timeout"], quiet=quiet))
    if record is None:
        note("interrupted; everything of the drill is gone")
        return ExitCode.UNAVAILABLE
    deliver(record_json(record), _parts(record), lambda: page_of(record), json=json, html=html)
    broken = record.failure or any(verdict.kept is False for verdict in record.verdicts)
    return ExitCode.PROMISE_BROKEN if broken else ExitCode.DONE


def _parts(record: DrillRecord) -> Iterable[Part]:
    """The end of a drill, for people: as a run at a node is shown, and as its report begins."""
    from gossamer.drill import figures, happened, verdict_in_words

    for part in result_parts(to_builtins(record.verdicts), figures(record)):
        yield part
        yield ""
    yield verdict_in_words(record)
    yield happened(record)


async def _run(plan: Plan, *, keep: bool, start_timeout: float, quiet: bool) -> DrillRecord | None:
    """Run the drill and return its record, or None if it was interrupted."""
    from gossamer.drill import conduct

    with interruptible() as interrupt, open_screen(quiet=quiet) as screen:
        record, directory = await conduct(
            plan, keep=keep, start_timeout=start_timeout, tell=screen.tell, show=screen.show
        )
    if interrupt.came:
        return None
    if keep:
        note(f"logs and data are in {directory}")
    return record
