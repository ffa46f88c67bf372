"""The command line, run in this process against an API that is really there."""

import json
import threading
from dataclasses import dataclass

import pytest
from api.fakes import FakeView
from api.served import in_thread
from api.served import served as api_served

from gossamer.cli import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch, capsys):
    """``run("nodes", "--json")`` gives the exit code and what was printed."""
    for name in ("GOSSAMER_API", "GOSSAMER_TOKEN", "GOSSAMER_TOKEN_FILE", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["gossamer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def ask(run, served):
    """As ``run``, of the served node."""
    return lambda *arguments: run(*arguments, "--api", served.url)


@pytest.fixture
def whole(served):
    """The served node, in a cluster in which all three nodes answer."""
    for name in ("node2@127.0.0.1", "node3@127.0.0.1"):
        served.answers(name)
    return served


@pytest.fixture
def served(tmp_path):
    """A faked node, its API on a port of this machine; ``end(reason)`` ends the program that it runs."""
    with in_thread(lambda: api_served(FakeView(directory=tmp_path))) as (node, soon):

        def end(reason):
            over = threading.Event()
            soon(lambda: (node.view.programs.end(reason), over.set()))
            assert over.wait(10)

        node.end = end
        node.answers(node.view.name)
        yield node
