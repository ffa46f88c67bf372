"""The command line, run in this process against an API that is really there."""

import asyncio
import functools
import json
import threading
from dataclasses import dataclass, field

import pytest
import structlog
from api.fakes import FakeTable, FakeView

from gossamer.api import ApiServer, PeerRequests, Tokens, make_app
from gossamer.cli import main
from gossamer.clock import SystemClock
from gossamer.config import ApiConfig
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime


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


@dataclass
class Served:
    view: FakeView
    url: str = ""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    runtime: Runtime | None = None

    def answers(self, name):
        """From now on this node of the cluster answers the one that is asked."""
        view = self.view if name == self.view.name else FakeView(name=name)
        view.known = [row.model_copy(update={"local": row.name == name}) for row in view.known]
        self.view.peers[name] = PeerRequests(lambda: make_app(view), self.runtime)
        return view

    def end(self, reason):
        """The program that runs at the node ends."""
        over = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (self.view.programs.end(reason), over.set()))
        assert over.wait(10)


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
    """A faked node whose API listens on a port of this machine, in a thread of its own."""
    served = Served(FakeView(directory=tmp_path))
    started = threading.Event()

    async def serve():
        runtime = served.runtime = Runtime(node=served.view.name)
        served.answers(served.view.name)
        tokens = Tokens(now=SystemClock().wall)
        tokens.attach(FakeTable())
        pid = await runtime.start(
            ApiServer,
            functools.partial(make_app, served.view, tokens=tokens),
            config=ApiConfig(port=0),
            network=SystemNetwork(),
            name="api",
        )
        host, port = await runtime.call(pid, "address")
        served.url = f"http://{host}:{port}"
        served.loop = asyncio.get_running_loop()
        started.set()
        await served.stop.wait()
        await runtime.stop()

    # A node says on standard output what it does, which is a process of its own elsewhere.
    with structlog.testing.capture_logs():
        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        assert started.wait(10)
        yield served
        served.loop.call_soon_threadsafe(served.stop.set)
        thread.join(10)
