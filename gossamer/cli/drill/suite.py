"""``gossamer drill suite``: all drills one after the other, and a verdict for each promise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli import completion
from gossamer.cli.command import duration, option
from gossamer.cli.commands.runs import VERDICTS
from gossamer.cli.drill.screen import open_screen
from gossamer.cli.errors import OptionError
from gossamer.cli.exits import ExitCode
from gossamer.cli.local.interrupt import interruptible, loop_factory
from gossamer.cli.render.output import note
from gossamer.cli.render.show import Part, show_part
from gossamer.cli.render.table import Grid
from gossamer.cli.root import example
from gossamer.drill.record import BackEndName, DrillRecord, Plan
from gossamer.faults import DRILLS

if TYPE_CHECKING:
    from gossamer.drill import SuiteResult, Summary

KINDS = completion.known(*DRILLS)

BackEnd = Annotated[
    BackEndName, typer.Option("--backend", help="gate: faults in the nodes; netns: real packets, needs root.")
]
Seed = Annotated[int, typer.Option("--seed", help="Decides the order of messages.")]


def check_files(**files: Path | None) -> None:
    """Check before the drill that the files which it is to write can be made; ``-`` is standard output."""
    for name, file in files.items():
        if file is not None and str(file) != "-" and not file.absolute().parent.is_dir():
            raise OptionError(f"--{name}", got=str(file), expected="a file in a directory that exists")


@example("--quick --html suite.html")
def suite(
    only: list[str] | None = option(
        None, "--only", "A kind or a name, such as partition; may be repeated.", KINDS, metavar="DRILL"
    ),
    quick: bool = option(False, "--quick", "Three nodes, six short drills that heal sooner: five minutes."),
    backend: BackEnd = "gate",
    load: float | None = option(
        None, "--load", "Messages a second (default: 500, quick 200)", min=0, max=50_000, show_default=False
    ),
    hold: float | None = option(
        None, "--for", "How long each fault holds (20s).", parser=duration, metavar="DURATION"
    ),
    seed: Seed = 0,
    json: Path | None = option(None, "--json", "Write all records there, - prints them.", metavar="FILE"),
    html: Path | None = option(None, "--html", "Write one page over all drills there.", metavar="FILE"),
) -> None:
    """Run all drills, and say of every promise whether it was kept in each."""
    from gossamer.drill import choose_plans, suite_html, suite_json, suite_plans

    check_files(json=json, html=html)
    chosen = choose_plans(
        suite_plans(backend=backend, quick=quick, load=load, seed=seed, hold=hold), only or []
    )
    began_at = time.time()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        result, whole = runner.run(_run(chosen, quiet=str(json) == "-"))
    summary = result.summary()
    deliver(
        suite_json(result),
        _parts(summary, result),
        lambda: suite_html(result.records, result.skipped, began_at=began_at),
        json=json,
        html=html,
    )
    for line in (summary.words, *summary.more):
        note(line)
    if not whole:
        note("interrupted; everything of the drills is gone")
        raise typer.Exit(ExitCode.UNAVAILABLE)
    raise typer.Exit(ExitCode.DONE if summary.kept else ExitCode.PROMISE_BROKEN)


async def _run(chosen: Sequence[Plan], *, quiet: bool) -> tuple[SuiteResult, bool]:
    """What was run, and whether it was all."""
    from gossamer.drill import SuiteResult, backend_of, conduct, name_of, run_suite, verdict_in_words

    result = SuiteResult()
    # Asked before anything is done: what this machine cannot do at all is said at once.
    probe = backend_of(chosen[0].backend, lambda _name, _how: None)
    await probe.close()
    done = 0

    async def carry_out(plan: Plan) -> DrillRecord:
        note(f"[{done + 1}/{len(chosen)}] {name_of(plan)} ...")
        with open_screen(quiet=quiet) as screen:
            return (await conduct(plan, show=screen.show))[0]

    def over(name: str, record: DrillRecord | None, why: str) -> None:
        nonlocal done
        done += 1
        if record is None:
            said = f"not run: {why}"
        else:
            said = verdict_in_words(record) + (f" ({why})" if why else "")
        note(f"[{done}/{len(chosen)}] {name}: {said}")

    with interruptible() as interrupt:
        await run_suite(chosen, abilities=probe.abilities, carry_out=carry_out, tell=over, result=result)
    return result, not interrupt.came


def _parts(summary: Summary, result: SuiteResult) -> Iterable[Part]:
    """A line for each promise, with what every drill said of it; then what was broken."""
    rows = [
        (
            row.promise,
            VERDICTS[row.kept],
            f"{row.kept_in} of {row.judged_in}" if row.judged_in else "",
            f"{row.worst}: {row.got}" if row.worst else "",
        )
        for row in summary.promises
    ]
    yield Grid(["PROMISE", "VERDICT", "KEPT IN", "FOUND"], rows)
    if broken := [
        (name, found.promise, found.got)
        for name, record in result.records.items()
        for found in record.verdicts
        if found.kept is False
    ]:
        yield ""
        yield Grid(["DRILL", "BROKEN PROMISE", "FOUND"], broken)


def deliver(
    document: bytes,
    parts: Iterable[Part],
    page: Callable[[], str],
    *,
    json: Path | None,
    html: Path | None,
) -> None:
    """Print the ``parts`` of what was found, or its ``document``; write the files that were asked for."""
    if str(json) == "-":
        typer.echo(document, nl=False)
    else:
        for part in parts:
            show_part(part)
        if json is not None:
            json.write_bytes(document)
    if html is not None:
        html.write_text(page(), encoding="utf-8")
