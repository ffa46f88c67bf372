"""TAB: what is offered, that nothing else is ever said, and that real shells put it in."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import typer

from cli.terminal import Terminal
from gossamer.api.jobs.drill_plan import KINDS
from gossamer.cli import app, values
from gossamer.cli.bashline import parse
from gossamer.cli.complete import answer, candidates
from gossamer.cli.shells import SCRIPTS, install
from gossamer.node import HAPPENINGS

ROOT = typer.main.get_command(app)
NODE = "node1@127.0.0.1"


def offered(*words):
    """The values that may stand where the last word begins."""
    *before, current = words
    kind, found = candidates(ROOT, before, current)
    assert kind == "values"
    return [value for value, _ in found]


# -- what is offered


def test_verbs_and_options_are_offered_without_a_node():
    assert offered("clu") == ["cluster"]
    assert offered("clients", "k") == ["kick"]
    assert "--limit" in offered("clients", "--l")
    assert "--limit" in offered("clients", "list", "--l")
    assert offered("cluster", "keys", "i") == ["install"]
    assert "processes" not in offered("p")


def test_known_values_are_offered_without_a_node():
    assert offered("drill", "partition", "--backend", "") == ["gate", "netns"]
    assert offered("drill", "partition", "--backend=n") == ["--backend=netns"]
    assert offered("tokens", "create", "ci", "--role", "o") == ["operator"]
    assert set(offered("drill", "suite", "--only", "")) == {kind.kind for kind in KINDS}
    assert set(offered("events", "--kind", "")) == set(HAPPENINGS)
    assert offered("completion", "f") == ["fish"]
    assert values.roles(None, "x") == []


def test_files_are_left_to_the_shell():
    assert candidates(ROOT, ["start", "-c"], "no") == ("files", [])
    assert candidates(ROOT, ["config", "check"], "") == ("files", [])
    assert candidates(ROOT, ["up", "--data-dir"], "") == ("directories", [])


def test_names_of_the_cluster_are_offered(served, monkeypatch):
    monkeypatch.setenv("GOSSAMER_API", served.url)
    assert offered("nodes", "show", "node1") == [NODE]
    assert offered("nodes", "--node", "node1") == [NODE]
    assert offered("nodes", "--node=node1") == [f"--node={NODE}"]
    assert offered("clients", "kick", "") == sorted(row.client for row in served.view.sessions)
    assert offered("tables", "show", "r")
    assert offered("topics", "match", "")


def test_the_node_that_is_asked_is_the_one_of_the_line(served):
    assert offered("nodes", "--api", served.url, "show", "node1") == []
    assert offered("nodes", "show", "--api", served.url, "node1") == [NODE]


@pytest.mark.parametrize("api", ["127.0.0.1:1", "no such address", "http://[::bad", "https://127.0.0.1:1"])
def test_without_a_node_nothing_is_offered_and_nothing_said(monkeypatch, capfd, api):
    monkeypatch.setenv("GOSSAMER_API", api)
    assert offered("nodes", "show", "") == []
    assert capfd.readouterr() == ("", "")


def test_a_node_that_does_not_answer_is_not_waited_for(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("GOSSAMER_API", f"127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(values, "PATIENCE", 0.05)
        assert offered("nodes", "show", "") == []


def test_who_asks_in_vain_for_an_address_does_not_wait_either(monkeypatch):
    forever = threading.Event()
    monkeypatch.setattr(values, "PATIENCE", 0.05)
    monkeypatch.setattr(values.QuickApi, "get", lambda *_: forever.wait(60) and [])
    assert offered("nodes", "show", "") == []
    forever.set()


@pytest.mark.parametrize("shell", [*SCRIPTS, "tcsh"])
@pytest.mark.parametrize("words", [[], [""], ["no-such-verb", "x", ""], ["clients", "--no", "--bad", ""]])
def test_a_shell_that_asks_nonsense_hears_nothing(shell, words):
    done = subprocess.run(
        [sys.executable, "-m", "gossamer.cli", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "_GOSSAMER_COMPLETE": shell},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:1] == ["values"]


# -- how bash reads a line


@pytest.mark.parametrize(
    ("line", "words", "current", "kept"),
    [
        ("gossamer clients ki", ("gossamer", "clients"), "ki", 0),
        ("gossamer clients ", ("gossamer", "clients"), "", 0),
        ("gossamer nodes show node1@12", ("gossamer", "nodes", "show"), "node1@12", 5),
        ("gossamer clients kick 'a b", ("gossamer", "clients", "kick"), "a b", 0),
        ("gossamer clients kick a\\ b", ("gossamer", "clients", "kick"), "a b", 0),
        ("gossamer nodes --api=http://x", ("gossamer", "nodes"), "--api=http://x", 11),
        ('gossamer topics "a\\"b" c', ("gossamer", "topics", 'a"b'), "c", 0),
        ("gossamer topics '' c", ("gossamer", "topics", ""), "c", 0),
    ],
)
def test_a_line_is_read_as_bash_reads_it(line, words, current, kept):
    found = parse(line)
    assert (found.words, found.current, found.kept) == (words, current, kept)


@pytest.mark.parametrize(
    ("line", "value", "put"),
    [
        ("g ", "$SYS/#", "\\$SYS/\\#"),
        ("g ", "a b;rm", "a\\ b\\;rm"),
        ("g node1@1", "node1@127.0.0.1", "@127.0.0.1"),
        ("g '", "$SYS/#", "$SYS/#"),
        ("g '", "it's", None),
        ('g "', "$SYS/`x`", "\\$SYS/\\`x\\`"),
        ("g a:b:", "a:b:c", "c"),
    ],
)
def test_what_bash_puts_in_is_read_by_it_as_the_value(line, value, put):
    assert parse(line).put(value) == put


def test_every_shell_hears_of_values_in_its_own_way():
    assert answer(ROOT, "bash", ["gossamer clu"], {}) == "values\ncluster\n"
    assert answer(ROOT, "zsh", ["clu"], {}).startswith("values\ncluster:Who is in the cluster")
    assert answer(ROOT, "fish", ["clu"], {}).startswith("values\ncluster\tWho is in the cluster")


# -- the scripts


def test_a_script_is_printed_and_an_unknown_shell_is_not(run):
    for shell, script in SCRIPTS.items():
        assert run("completion", shell).out == script
    refused = run("completion", "tcsh")
    assert refused.code == 2
    assert "expected one of bash, zsh, fish" in refused.err


@pytest.mark.parametrize("shell", SCRIPTS)
def test_an_installation_says_where_and_can_be_repeated(run, monkeypatch, tmp_path, shell):
    monkeypatch.setenv("HOME", str(tmp_path))
    first = run("completion", shell, "--install")
    assert first.code == 0, first.err
    files = first.out.splitlines()
    texts = [Path(file).read_text() for file in files]
    assert texts[0] == SCRIPTS[shell]
    assert run("completion", shell, "--install").out.splitlines() == files
    assert [Path(file).read_text() for file in files] == texts


def test_what_stands_in_the_users_files_stays(tmp_path):
    (tmp_path / ".bashrc").write_text("alias ll=ls")
    install("bash", tmp_path)
    assert (tmp_path / ".bashrc").read_text().startswith("alias ll=ls\n[ -r ")


# -- real shells


def shell_of(name):
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (apt-get install {name})")
    return path


@pytest.fixture
def home(tmp_path, served):
    """A directory with a ``gossamer`` to be found, and the environment of a shell that finds it."""
    command = tmp_path / "bin" / "gossamer"
    command.parent.mkdir()
    # Asked for candidates it is the command; run, it shows what the shell made of the line.
    command.write_text(
        '#!/bin/sh\n[ "$_GOSSAMER_COMPLETE" ] || exec printf "<%s>" "$@"\n'
        f'exec {sys.executable} -m gossamer.cli "$@"\n'
    )
    command.chmod(0o755)
    for shell in SCRIPTS:
        install(shell, tmp_path)
    (tmp_path / "node.yaml").write_text("")
    keep = {name: os.environ[name] for name in ("PYTHONPATH", "LANG", "LC_ALL") if name in os.environ}
    environment = {
        **keep,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "xterm",
        "GOSSAMER_API": served.url,
    }
    return tmp_path, environment


@pytest.fixture
def terminal(home):
    open_ones = []

    def terminal(*argv):
        directory, environment = home
        made = Terminal([shell_of(argv[0]), *argv[1:]], directory=directory, environment=environment)
        open_ones.append(made)
        return made

    yield terminal
    for one in open_ones:
        one.close()


LINES = [
    ("gossamer clu", "cluster "),
    ("gossamer nodes show node1", f"{NODE} "),
    ("gossamer nodes show node1@12", f"{NODE} "),
    ("gossamer nodes --node=node1@", f"--node={NODE} "),
    ("gossamer drill partition --backend ne", "netns "),
    ("gossamer start -c nod", "node.yaml "),
]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_on_a_terminal_completes(terminal, shell):
    options = {"bash": ("--noprofile", "-i"), "zsh": ("-i",)}[shell]
    at = terminal(shell, *options)
    # Whoever starts a shell for the first time is asked nothing here, and the prompt is known.
    at.type(
        "PS1='ready''> '; unsetopt prompt_cr prompt_sp 2>/dev/null; bind 'set bell-style none' 2>/dev/null\r"
    )
    at.see("ready> ")
    for line, ends in LINES:
        at.type(line + "\t")
        # bash writes only behind the last of its breaks anew.
        at.see(re.escape(re.split("[@=]", ends)[-1]))
        at.type("\r")
        # What was put in is what the shell then reads: quoted as it must be.
        assert f"<{ends.strip()}>" in at.see("ready> "), line


def test_fish_completes(home):
    fish = shell_of("fish")
    directory, environment = home
    for line, ends in LINES:
        done = subprocess.run(
            [fish, "-c", "complete --do-complete $argv[1]", line],
            capture_output=True,
            text=True,
            cwd=directory,
            env=environment,
        )
        assert done.stderr == ""
        assert [found.partition("\t")[0] for found in done.stdout.splitlines()] == [ends.strip()]
