"""``gossamer audit``: the flow recorders of nodes and their settings; audit jobs.

The jobs' own program, which is also what ``spark-submit`` takes, parses their options. It runs in this
process: a second interpreter would take as long to start as a small recording takes to be judged.
"""

from __future__ import annotations

import runpy
import sys
from typing import get_args

import typer

from gossamer.api.model.forms import MOMENT, Job, Promise
from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient
from gossamer.cli.command import OnNode, argument, asks, option
from gossamer.cli.commands.runs import ON_NODE, RUN_TIMEOUT, Wait, add_runs, start_run
from gossamer.cli.render.show import Columns, Listing, Report
from gossamer.cli.root import example
from gossamer.config import format_size

JOBS: tuple[Job, ...] = get_args(Job)
_RECORDER, _HERE = "The recorder of the nodes", "On this machine, over recorded files"
"""Panels of the help."""

audit = typer.Typer(no_args_is_help=True)

_COLUMNS: Columns = {
    "NODE": "node",
    "RECORDING": lambda row: "yes" if row["recording"] else "failed, see its log" if row["enabled"] else "no",
    "SAMPLE": lambda row: f"{row['sample']:.2%}".replace(".00%", "%"),
    "MESSAGES": "messages",
    "EVENTS": "recorded",
    "DROPPED": "dropped",
    "GAPS": "gaps",
    "WAITING": "buffered",
    "FILES": "files",
    "SIZE": lambda row: format_size(row["bytes"]),
    "CLOCK": lambda row: "-" if row["clock_offset"] is None else f"{row['clock_offset'] * 1000:+.1f}ms",
}


@audit.command(rich_help_panel=_RECORDER)
@asks("--watch", watch=True)
def status(client: ApiClient, node: OnNode = None) -> Listing:
    """Show the flow recorder of every node, or of one: events, drops, gaps, files, bytes."""
    answers = client.each(lambda peer: peer.document("audit"), node=node)
    return Listing(answers, _COLUMNS, empty="no node answered")


@audit.command("set", rich_help_panel=_RECORDER)
@asks("--on --sample 0.1 --keep-for 7d")
def change(
    client: ApiClient,
    on: bool | None = typer.Option(None, "--on/--off", help="Switch recording on or off."),
    sample: float | None = option(None, "--sample", "Share of the messages to record.", min=0.0, max=1.0),
    rotate_after: str | None = option(None, "--rotate-after", "Finish files after, such as 60s."),
    keep_for: str | None = option(None, "--keep-for", "Remove files older than, such as 7d; or off."),
    keep_size: str | None = option(
        None, "--keep-size", "Remove files beyond, such as 10GiB; or 0.", callback=values.size
    ),
    buffer: int | None = option(None, "--buffer", "Rows kept in memory at most.", min=1000),
    node: OnNode = None,
) -> Listing:
    """Switch or set the recorder of all nodes that are up, or of one, until their next restart."""
    from gossamer.api.model.node import RecordingSettings

    size = None if keep_size is None else values.bytes_of(keep_size)
    kept = {"rotate_after": rotate_after, "keep_for": keep_for, "keep_size": size}
    given = {"enable": on, "sample": sample, "buffer": buffer, **kept}
    body = values.changes(RecordingSettings, given, enable="--on, --off")
    answers = client.each(lambda peer: peer.post("audit", body), node=node)
    remark = "until their next restart; their configuration files stay as they are"
    return Listing(answers, _COLUMNS, empty="no node answered", remark=remark)


@audit.command(rich_help_panel=ON_NODE)
@asks("completeness --from 6h --fail-on lost --wait", node=True, timeout=RUN_TIMEOUT)
def start(
    client: ApiClient,
    json: bool,
    job: str = argument(
        "report", "JOB", "report is all of them.", completion.known(*JOBS), callback=values.one_of(JOBS)
    ),
    begin: str | None = option(
        None, "--from", "Such as 6h, yesterday, 2026-01-31T07:00.", callback=values.form(MOMENT)
    ),
    end: str | None = option(None, "--to", "Excluded; as --from.", callback=values.form(MOMENT)),
    fail_on: list[str] | None = option(
        None,
        "--fail-on",
        "lost, doubled, late, misrouted, …; may be repeated.",
        metavar="PROMISE",
        callback=values.one_of(get_args(Promise)),
    ),
    wait: Wait = False,
) -> Report:
    """Start a job over what a node recorded, on its machine."""
    body = {"job": job, "from": begin, "to": end, "fail_on": fail_on or None}
    return start_run(client, "audit/runs", body, runs="audit/reports", json=json, wait=wait)


add_runs(
    audit,
    "audit",
    "audit/reports",
    completion.audits,
    listed="List the audits of a node, the newest first, including those of a stream beside it.",
    stopped="Stop an audit; or delete one that has ended, with its results.",
)

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@audit.command(context_settings=_PASSED_ON, rich_help_panel=_HERE)
@example("report --dir data/audit")
def run(context: typer.Context) -> None:
    """Run audit jobs over what the nodes recorded: ``gossamer audit run report --dir data/audit``."""
    _pass_on("run", context.args)


@audit.command(context_settings=_PASSED_ON, rich_help_panel=_HERE)
@example("--dir data/audit")
def stream(context: typer.Context) -> None:
    """Audit as it happens, and raise alarms: ``gossamer audit stream --dir data/audit``."""
    _pass_on("stream", context.args)


def _pass_on(command: str, arguments: list[str]) -> None:
    sys.argv[1:] = [command, *arguments]
    runpy.run_module("gossamer.spark", run_name="__main__", alter_sys=True)
