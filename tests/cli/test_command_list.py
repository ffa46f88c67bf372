"""What the command says of itself: verbs, help, an example of each; and how little it loads for that."""

import os
import re
import shlex
import subprocess
import sys

import pytest
import typer

from gossamer.cli import app
from gossamer.cli.root import COMMANDS, PANELS

# What takes longer to load than all that a list of commands needs.
HEAVY = ("fastapi", "grpc", "httpx", "pyarrow", "pydantic", "pyspark", "structlog", "uvicorn", "yaml")
ROOT = typer.main.get_command(app)


def everything(command=None, typed=""):
    """Every command that can be typed, by its words."""
    inner = ROOT.whole() if command is None else getattr(command, "commands", None)
    if inner is None:
        return {typed: command}
    found = {}
    for name, below in inner.items():
        found |= everything(below, f"{typed} {name}".strip())
    return found


ALL = everything()
EXAMPLES = {typed: command.examples for typed, command in ALL.items()}
ARGUMENTS = {
    "clients show": "sensor-1",
    "nodes show": "node1@127.0.0.1",
    "queues show": "jobs",
    "sessions show": "sensor-1",
    "tables show": "routes",
    "tenants show": "acme",
    "topics match": "a/b",
}
LOOKS = [
    f"{typed} {ARGUMENTS.get(typed, '')}".rstrip()
    for typed, command in ALL.items()
    if typed not in ("drill show", "audit show") and any("--watch" in one.opts for one in command.params)
]
"""Every command that can be watched, with its arguments; a run to be shown has to be started first."""


def loaded_after(statement, *arguments, **environment):
    """The heavy modules that a fresh interpreter has after ``statement``."""
    program = f"import sys\nsys.argv[1:] = {list(arguments)}\n{statement}\nprint('HAS', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    modules = done.stdout.rpartition("HAS")[2].split()
    return [name for name in HEAVY if name in modules], done.stdout


RUN = "from gossamer.cli import main\ntry: main()\nexcept SystemExit: pass"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["clients", "kick", "--help"]])
def test_what_asks_no_node_loads_nothing_heavy(arguments):
    heavy, printed = loaded_after(RUN, *arguments)
    # What reads options checks them by it, in any command that has some.
    assert [name for name in heavy if name != "pydantic" or len(arguments) == 1] == []
    assert "gossamer" in printed


def test_no_command_loads_anything_heavy_until_it_runs():
    homes = sorted({home for home, _ in COMMANDS.values()})
    imports = "\n".join(f"import gossamer.cli.{home}" for home in homes)
    assert loaded_after(imports)[0] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_it_says_of_itself(name):
    command = ROOT.whole()[name]
    assert (command.help or "").split("\n\n")[0] == COMMANDS[name][1]


def test_help_shows_every_verb_in_its_panel(run):
    shown = run("--help").out
    titles = [line for line in shown.splitlines() if any(panel in line for panel in PANELS)]
    assert [panel for line in titles for panel in PANELS if panel in line] == list(PANELS)
    listed = re.findall(r"^│ ([a-z-]+) ", shown, re.MULTILINE)
    assert sorted(name for name in listed if not name.startswith("-")) == sorted(
        name for panel in PANELS.values() for name in panel
    )
    for variable in ("GOSSAMER_API", "GOSSAMER_TOKEN", "GOSSAMER_TOKEN_FILE", "GOSSAMER_CACERT", "NO_COLOR"):
        assert variable in shown
    assert "exit codes" in shown.lower()


@pytest.mark.parametrize("typed", EXAMPLES)
def test_an_example_is_a_command_line_that_is_understood(typed):
    for example in EXAMPLES[typed]:
        # What stands around the command is the shell's.
        line = re.split(r"[|(]\s*(?=gossamer )", example)[-1].split(" > ")[0].split(" < ")[0].rstrip(")")
        words = shlex.split(line)
        words = words[words.index("gossamer") + 1 :]
        assert understood(words) == typed.split()


def understood(words):
    """The verbs of a command line whose options and arguments are all right."""
    context = ROOT.make_context("gossamer", words)
    verbs = []
    while hasattr(context.command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        verbs.append(name)
        context = command.make_context(name, rest, parent=context)
    return verbs


@pytest.mark.parametrize("words", [["clients", "kick"], ["up"], ["autoheal", "quarantine", "replay"]])
def test_a_command_shows_its_example(run, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = run(*words, "--help")
    assert shown.code == 0
    for example in EXAMPLES[" ".join(words)]:
        assert example in shown.out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["client"], "'clients'"),
        (["clients", "kik"], "'kick'"),
        (["drill", "partiton"], "'partition'"),
        (["top", "--jsn"], "--json"),
        (["up", "--node", "3"], "--nodes"),
    ],
)
def test_a_word_that_is_nearly_one_is_answered_with_that(run, words, meant):
    refused = run(*words)
    assert refused.code == 2
    assert re.search(r"Did you mean|Possible options", refused.err)
    assert meant in refused.err
