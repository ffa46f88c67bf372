"""``gossamer drill suite``, and the progress output of every drill: a line for each step and mark.

Rules: 1. On a terminal one more line, below the others, says where the drill is; it is redrawn four times a
second.  2. When standard output is for the record, all of this goes to standard error.  3. Of clients that
come and go the first lines are shown and the rest counted: a broken drill may have thousands.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from gossamer.cli import completion
from gossamer.cli.command import option
from gossamer.cli.commands.runs import VERDICTS
from gossamer.cli.errors import ExitCode, OptionError
from gossamer.cli.local.interrupt import interruptible, loop_factory
from gossamer.cli.render.output import Grid, note, printable
from gossamer.cli.render.show import Part, show_part
from gossamer.cli.root import example
from gossamer.drill.record import BackEndName, DrillRecord, Plan
from gossamer.faults import DRILLS
from gossamer.options import duration

if TYPE_CHECKING:
    from gossamer.drill import Progress, StepName, SuiteResult, Summary
    from gossamer.drill.record import Mark

_CLIENT_LINES = 10
_WINDOW = 2.0
"""Seconds over which rates are taken."""


@contextlib.contextmanager
def open_screen(*, quiet: bool) -> Iterator[Screen]:
    """The screen for where the output goes; ``quiet``: standard output is taken."""
    console = Console(stderr=quiet, highlight=False)
    screen = Screen(console)
    if console.is_terminal:
        with Live(screen, console=console, refresh_per_second=4, transient=True):
            yield screen
    else:
        yield screen


class Screen:
    """Progress display of a drill; rendered, it is the status line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._clients = 0
        self._counts: deque[tuple[float, int, int]] = deque()

    def show(self, progress: Progress) -> None:
        """Display this progress from now on."""
        self._progress = progress

    def tell(self, what: Mark | StepName) -> None:
        """A step begins, or something happened."""
        if isinstance(what, str):
            self._print(f"--- {what}")
            return
        if what.kind in ("client dropped", "client back"):
            self._clients += 1
            if self._clients > _CLIENT_LINES:
                if self._clients == _CLIENT_LINES + 1:
                    self._print("    more clients come and go; they are counted in the end")
                return
        self._print(line_of(what))

    def _print(self, line: str) -> None:
        self._console.print(Text(printable(line)), soft_wrap=True)

    def __rich__(self) -> Text:
        progress = self._progress
        if progress is None or progress.load is None:
            return Text("starting" if progress is None else progress.step, style="bold")
        now, ledger = progress.now(), progress.load.ledger
        since = now - (progress.phases[-1].end if progress.phases else 0.0)
        # Lists, since this is drawn by a thread of its own while the counters grow.
        self._counts.append((now, sum(list(ledger.sent.values())), sum(list(ledger.delivered.values()))))
        while now - self._counts[0][0] > _WINDOW and len(self._counts) > 2:
            self._counts.popleft()
        then, sent, delivered = self._counts[0]
        _, *latest = self._counts[-1]
        span = max(now - then, 0.001)
        line = Text(f"{progress.step} {max(0.0, since):.0f} s: ", no_wrap=True, overflow="ellipsis")
        line.append(
            f"{(latest[0] - sent) / span:.0f} sent/s, {(latest[1] - delivered) / span:.0f} delivered/s"
        )
        line.append(f", {max(0, ledger.owed)} due")
        if dropped := sum(not drop.excused for drop in progress.drops):
            line.append(f", {dropped} clients dropped", "red")
        return line


def short(node: str) -> str:
    """``node3`` of ``node3@127.0.0.1``."""
    return node.partition("@")[0]


def line_of(mark: Mark) -> str:
    """Format one mark as a line."""
    words = [f"{mark.at:8.2f} s ", f"{short(mark.node) or 'drill':<8}", mark.kind]
    if mark.peer:
        words.append(short(mark.peer))
    if mark.detail:
        words.append(f"({mark.detail})")
    return " ".join(words)


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
    """Run the chosen plans; return the result, and whether all were run."""
    from gossamer.drill import SuiteResult, backend_of, conduct, name_of, run_suite, verdict_in_words

    result = SuiteResult()
    # Checked first: what this machine cannot do at all is reported at once.
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
    """Yield a row for each promise with the verdict of every drill; then the broken ones."""
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
