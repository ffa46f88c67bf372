"""``gossamer drill``: break a cluster of real processes on purpose, under load, and see how it heals.

The cluster is created for the drill and removed after it; no other one is touched. (``drill start`` has a
node do that, or break the cluster that runs.) Each kind of drill is a command with the same options and one
or two of its own, so the commands are made from a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.drill.options import (
    BACKENDS,
    SPLITS,
    DrillOptionError,
    backend_named,
    check_files,
    duration,
)
from gossamer.cli.drill.screen import open_screen, show_record
from gossamer.cli.drill.start import start_drill
from gossamer.cli.drill.suite import suite
from gossamer.cli.exits import ExitCode
from gossamer.cli.local.interrupt import interruptible
from gossamer.cli.local.start import loop_factory
from gossamer.cli.nouns import add_command
from gossamer.cli.render.output import note
from gossamer.cli.runs import ON_NODE, add_runs
from gossamer.drill.record import DrillKind, Plan, Setting, record_json

if TYPE_CHECKING:
    from gossamer.drill.record import DrillRecord

__all__ = ["app"]

app = typer.Typer(help="Break a cluster on purpose, and see how it heals.", no_args_is_help=True)
_HERE = "On this machine, with a cluster of its own"
"""Panel of the help."""

MAX_NODES = 32


# -- what people type


def _span(text: str) -> float:
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


def _time(name: str, says: str, parser: Callable[[str], float] = duration) -> Any:
    return Annotated[float, typer.Option(name, parser=parser, metavar="DURATION", help=says)]


_Option = tuple[Any, Any]
"""Annotation and default."""

_SPLIT: dict[str, _Option] = {
    "split": (
        Annotated[
            str,
            typer.Option(
                "--split",
                help="Sides 3/2, 2/2/1; one way 1>2; one link 1-2 (default: two halves)",
                autocompletion=SPLITS,
                show_default=False,
            ),
        ],
        "",
    )
}
_NODE: dict[str, _Option] = {
    "node": (
        Annotated[
            int | None,
            typer.Option("--node", min=1, help="Its number (default: the last one)", show_default=False),
        ],
        None,
    )
}
_COMMON: dict[str, _Option] = {
    "nodes": (Annotated[int, typer.Option("--nodes", "-n", min=2, max=MAX_NODES, help="How many.")], 5),
    "seconds": (_time("--for", "How long the fault holds."), "20s"),
    "load": (
        Annotated[float, typer.Option("--load", min=0, max=50_000, help="Messages a second, in all.")],
        500.0,
    ),
    "backend": (
        Annotated[
            str,
            typer.Option(
                "--backend",
                help="gate: faults in the nodes; netns: real packets, needs root.",
                autocompletion=BACKENDS,
            ),
        ],
        "gate",
    ),
    "seed": (Annotated[int, typer.Option("--seed", help="Decides the order of messages.")], 0),
    "warm_up": (_time("--warm-up", "Load before the fault."), "5s"),
    "after": (_time("--after", "Load after the heal."), "5s"),
    "configure": (
        Annotated[
            list[str] | None,
            typer.Option("--set", metavar="KEY=VALUE", help="Configure the nodes: cluster.autoheal=5s"),
        ],
        None,
    ),
    "json": (
        Annotated[
            Path | None,
            typer.Option("--json", metavar="FILE", help="Write the record there as JSON, - prints it."),
        ],
        None,
    ),
    "html": (
        Annotated[
            Path | None, typer.Option("--html", metavar="FILE", help="Write a page with a chart there.")
        ],
        None,
    ),
    "keep": (Annotated[bool, typer.Option("--keep", help="Keep logs and data of all nodes.")], False),
    "timeout": (_time("--timeout", "How long the cluster may take to start."), "60s"),
}


def _register(kind: DrillKind, says: str, own: dict[str, _Option], **more: _Option) -> None:
    """A command for one kind of drill."""

    def carry_out(**options: Any) -> None:
        raise typer.Exit(_carry_out(_plan(kind, options), options))

    add_command(app, kind, says, {**own, **_COMMON, **more}, carry_out, panel=_HERE)


_register("partition", "Cut the network into sides, one way, or at one link, and let it heal.", _SPLIT)
_register(
    "flapping",
    "Cut and mend the network again and again.",
    _SPLIT,
    period=(_time("--period", "How long each cut lasts, and each pause."), "4s"),
)
_register(
    "slow",
    "Make the network between sides slow and lossy.",
    _SPLIT,
    delay=(_time("--delay", "How much later everything is."), "200ms"),
    jitter=(_time("--jitter", "At most so much later still."), "50ms"),
    loss=(Annotated[float, typer.Option("--loss", parser=_share, metavar="SHARE", help="Lost: 5%.")], "5%"),
)
_register("kill", "Kill a node (SIGKILL), and start it again.", _NODE)
_register("pause", "Stop a node's process (SIGSTOP), and let it go on.", _NODE)
_register("rolling", "Restart all nodes in order, one after the other.", {})
_register(
    "clock",
    "Let a node's wall clock jump, and jump back.",
    _NODE,
    jump=(_time("--jump", "How far: 1h, -10m.", _span), "1h"),
)
_register("coordinator", "Cut the network, and kill the node that heals it while it does.", _SPLIT)
_register("disk", "Let a node's files grow no more, as on a full disc.", _NODE)

app.command(rich_help_panel=_HERE)(suite)
app.command("start", rich_help_panel=ON_NODE)(start_drill)
add_runs(
    app,
    "drill",
    "drills",
    names.drills,
    listed="List the drills that were started at a node, the newest first.",
    stopped="Stop a drill and heal what it broke; or delete one that has ended.",
)

_OWN = ("period", "delay", "jitter", "loss", "jump")


def _plan(kind: DrillKind, options: dict[str, Any]) -> Plan:
    from gossamer.drill import unnamed

    nodes: int = options["nodes"]
    shape = ""
    if "split" in options:
        shape = options["split"] or f"{nodes - nodes // 2}/{nodes // 2}"
    elif "node" in options:
        shape = str(options["node"] or nodes)
    own: dict[str, Setting] = {name: options[name] for name in _OWN if name in options}
    return Plan(
        kind=kind,
        shape=shape,
        nodes=unnamed(nodes),
        backend=backend_named(options["backend"]),
        seconds=options["seconds"],
        load=options["load"],
        seed=options["seed"],
        warm_up=options["warm_up"],
        after=options["after"],
        settings=own | _configured(options["configure"] or []),
    )


def _configured(pairs: Sequence[str]) -> dict[str, Setting]:
    """``cluster.autoheal=5s`` as the variable of the environment that says so."""
    found: dict[str, Setting] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.replace(".", "").replace("_", "").isalnum():
            raise DrillOptionError(option="--set", got=pair, expected="KEY=VALUE such as cluster.autoheal=5s")
        found["GOSSAMER_" + key.strip().upper().replace(".", "__")] = value.strip()
    return found


# -- one drill


def _carry_out(plan: Plan, options: dict[str, Any]) -> ExitCode:
    json: Path | None = options["json"]
    html: Path | None = options["html"]
    printed = json is not None and str(json) == "-"
    check_files(json=json, html=html)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        record = runner.run(_run(plan, keep=options["keep"], patience=options["timeout"], quiet=printed))
    if record is None:
        note("interrupted; everything of the drill is gone")
        return ExitCode.UNAVAILABLE
    if printed:
        typer.echo(record_json(record), nl=False)
    else:
        show_record(record)
        if json is not None:
            json.write_bytes(record_json(record))
    if html is not None:
        _write_page(record, html)
    broken = record.failure or any(verdict.kept is False for verdict in record.verdicts)
    return ExitCode.PROMISE_BROKEN if broken else ExitCode.DONE


async def _run(plan: Plan, *, keep: bool, patience: float, quiet: bool) -> DrillRecord | None:
    """The record, or None when somebody wanted it to end."""
    from gossamer.drill import conduct

    with interruptible() as interrupt:
        async with open_screen(quiet=quiet) as screen:
            record, directory = await conduct(
                plan, keep=keep, patience=patience, tell=screen.tell, show=screen.show
            )
    if interrupt.came:
        return None
    if keep:
        note(f"logs and data are in {directory}")
    return record


def _write_page(record: DrillRecord, file: Path) -> None:
    from gossamer.drill import html

    file.write_text(html(record), encoding="utf-8")
