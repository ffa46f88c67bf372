"""Shell completion: the values that are offered, and that real shells insert them."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError

import pytest

from cli.servers import say, serving
from cli.terminal import Terminal
from gossamer.api.jobs.drill_plan import KINDS
from gossamer.cli import completion
from gossamer.node import HAPPENINGS

NODE = "node1@127.0.0.1"


@pytest.fixture
def offered(run, monkeypatch):
    """The values that may stand where the last word begins, as fish is told them."""

    def offered(*words):
        with monkeypatch.context() as patch:
            patch.setenv("_GOSSAMER_COMPLETE", "complete_fish")
            patch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
            patch.setenv("_TYPER_COMPLETE_ARGS", " ".join(["gossamer", *words]))
            found = run()
        assert (found.code, found.err) == (0, "")
        return [line.partition("\t")[0] for line in found.out.splitlines() if line]

    return offered


def test_verbs_and_options_are_offered_without_a_node(offered):
    assert offered("clu") == ["cluster"]
    assert offered("clients", "k") == ["kick"]
    assert "--limit" in offered("clients", "--l")
    assert "--limit" in offered("clients", "list", "--l")
    assert offered("cluster", "keys", "i") == ["install"]


def test_known_values_are_offered_without_a_node(offered):
    assert offered("drill", "partition", "--backend", "") == ["gate", "netns"]
    assert offered("tokens", "create", "ci", "--role", "o") == ["operator"]
    assert set(offered("drill", "suite", "--only", "")) == {kind.kind for kind in KINDS}
    assert set(offered("events", "--kind", "")) == set(HAPPENINGS)
    assert offered("completion", "f") == ["fish"]


def test_names_of_the_cluster_are_offered(offered, served, monkeypatch):
    monkeypatch.setattr(completion, "TIMEOUT", 10.0)
    api = f"--api {served.url}"
    assert offered(f"nodes {api} show", "node1") == []
    assert offered(f"nodes show {api}", "node1") == [NODE]
    assert offered(f"nodes {api} --node", "node1") == [NODE]
    assert offered(f"clients kick {api}", "") == sorted(row.client for row in served.view.sessions)
    assert offered(f"tables show {api}", "r")
    assert offered(f"queues show {api}", "jobs.") == ["jobs.dlq"]
    assert offered(f"topics match {api}", "")


@pytest.mark.parametrize("api", ["127.0.0.1:1", "no such address", "http://[::bad", "https://127.0.0.1:1"])
def test_without_a_node_nothing_is_offered_and_nothing_said(offered, api):
    assert offered("nodes", "show", f"--api '{api}'", "") == []


def test_a_token_is_taken_nowhere_else(monkeypatch):
    asked = []

    def answer(handler):
        asked.append((handler.path, handler.headers["Authorization"]))
        say(handler, 307, location="/elsewhere")

    monkeypatch.setattr(completion, "TIMEOUT", 10.0)
    monkeypatch.setenv("GOSSAMER_TOKEN", "secret")
    with serving(answer) as url:
        with pytest.raises(HTTPError) as refused:
            completion.get(url, "nodes")
        refused.value.close()
    assert asked == [("/api/v1/nodes", "Bearer secret")]


def test_a_node_that_does_not_answer_is_not_waited_for(offered, monkeypatch):
    monkeypatch.setattr(completion, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert offered("nodes", "show", f"--api :{silent.getsockname()[1]}", "") == []


def test_a_slow_name_lookup_is_not_waited_for(offered, monkeypatch):
    forever = threading.Event()
    monkeypatch.setattr(completion, "TIMEOUT", 0.05)
    monkeypatch.setattr(completion, "get", lambda *_, **__: forever.wait(60) and [])
    assert offered("nodes", "show", "") == []
    forever.set()


# -- the scripts


def test_a_script_is_printed_and_an_unknown_shell_is_not(run):
    for shell in completion.SHELLS:
        assert "_GOSSAMER_COMPLETE" in run("completion", shell).out
    refused = run("completion", "tcsh")
    assert refused.code == 2
    assert "expected one of bash, zsh, fish" in refused.err


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_an_installation_says_where_and_can_be_repeated(run, monkeypatch, tmp_path, shell):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (".bashrc", ".zshrc"):
        (tmp_path / name).write_text("alias ll=ls\n")
    script = run("completion", shell).out
    for _ in range(2):
        installed = run("completion", shell, "--install")
        assert installed.code == 0, installed.err
        assert Path(installed.out.strip()).read_text() == script
    for name in (".bashrc", ".zshrc"):
        assert (tmp_path / name).read_text().startswith("alias ll=ls\n")


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
    for shell in completion.SHELLS:
        subprocess.run(
            [sys.executable, "-m", "gossamer.cli", "completion", shell, "--install"],
            check=True,
            capture_output=True,
            env={**os.environ, "HOME": str(tmp_path)},
        )
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
    ("gossamer drill partition --backend ne", "netns "),
    ("gossamer start -c nod", "node.yaml "),
]
BASH_LINES = [*LINES, ("gossamer nodes --node=node1@", f"--node={NODE} ")]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_on_a_terminal_completes(terminal, shell):
    options = {"bash": ("--noprofile", "-i"), "zsh": ("-i",)}[shell]
    at = terminal(shell, *options)
    # Whoever starts a shell for the first time is asked nothing here, and the prompt is known.
    at.type(
        "PS1='ready''> '; unsetopt prompt_cr prompt_sp 2>/dev/null; bind 'set bell-style none' 2>/dev/null\r"
    )
    at.see("ready> ")
    for line, ends in BASH_LINES if shell == "bash" else LINES:
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
