"""``gossamer start``: one node in this process, until a signal or its own end.

Rules: 1. One ``ready`` line on standard output once the listeners are open; everything else goes to the log.
2. SIGINT and SIGTERM stop the node in order; a second one, or a stop that takes too long, ends it at once.
3. A node whose supervision tree gave up ends the process with a code of its own, so that whoever supervises
the process can start it again.
4. SIGHUP has it read again what may change while it runs, unless it runs in a terminal, whose end it is then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gossamer.cli.command import ConfigFile, Json, option
from gossamer.cli.errors import ExitCode
from gossamer.cli.local.interrupt import loop_factory
from gossamer.cli.render.output import json_text, note, ports_text, print_error, print_line
from gossamer.cli.root import example
from gossamer.errors import GossamerError

if TYPE_CHECKING:
    from gossamer.config import Config
    from gossamer.node import Node

STOP_LIMIT = 15.0
"""Seconds a node may take to stop in order."""


@example("-c node.yaml", "GOSSAMER_CLUSTER__AUTOHEAL=15s gossamer start -c node.yaml")
def start(
    config: ConfigFile = None,
    json: Json = False,
    log_file: Path | None = option(None, "--log-file", "Append all output to this file.", dir_okay=False),
) -> None:
    """Run one node in the foreground."""
    if log_file is not None:
        _print_to(log_file)
    # Here, so that the rest of the command starts without loading what a node is made of.
    from gossamer.cli.local.logs import secrets_in, set_up_logging
    from gossamer.config import cookie_of, load_config

    reread = partial(load_config, config, environ=os.environ)
    loaded = reread()
    cookie = cookie_of(loaded.node).get_secret_value()
    set_up_logging(loaded.log, node=loaded.node.name, secrets=[cookie, *secrets_in(loaded)])
    _remark(loaded)
    raise typer.Exit(_run_to_its_end(loaded, cookie, reread, as_json=json))


def _run_to_its_end(config: Config, cookie: str, reread: Callable[[], Config], *, as_json: bool) -> ExitCode:
    # Programs that a node starts replace the forked process at once: gRPC, which reads this when it is
    # loaded, has nothing to save for it, and logs a line each time where it could not.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    # Here, so that the rest of the command starts without loading a broker.
    from gossamer.node import DataDir, Node
    from gossamer.supervisor import tune_collector

    directory = DataDir(config.node.data_dir, wall=time.time())

    tune_collector()

    async def run() -> ExitCode:
        node = Node.of(config, directory, cookie)
        node.reread = reread
        return await _run(node, as_json=as_json)

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(run())
    finally:
        directory.close()


def _remark(config: Config) -> None:
    for remark in config.remarks:
        note(remark)
    if config.mqtt.server.enable and not config.mqtt.auth.allow_anonymous:
        note(
            "mqtt.auth.allow_anonymous is off, so clients without credentials are refused; "
            "GOSSAMER_MQTT__AUTH__ALLOW_ANONYMOUS=on lets them in"
        )


def _print_to(file: Path) -> None:
    """Point standard output and error at ``file``, those of C libraries too."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


async def _reload(node: Node) -> None:
    """Read again what may be read again while the node runs, as ``gossamer config reload`` does."""
    # Here, so that other commands start without loading it.
    import structlog

    log = structlog.get_logger(__name__)
    try:
        files, queues = await node.view.reload(), await node.view.reload_queues()
    except GossamerError as error:
        log.error("config_not_reloaded", error=str(error))
    else:
        log.info("config_reloaded", files=list(files), queues=queues)


async def _run(node: Node, *, as_json: bool) -> ExitCode:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stopping.is_set():
            os._exit(ExitCode.NODE_ENDED)
        stopping.set()
        loop.call_later(STOP_LIMIT, os._exit, ExitCode.NODE_ENDED)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)

    async def live() -> object:
        await node.start()
        facts = {"ready": True, "name": node.name, "pid": os.getpid(), "ports": node.ports}
        people = f"ready {node.name} pid={os.getpid()} {ports_text(node.ports)}"
        print_line(json_text(facts) if as_json else people)
        if not os.isatty(0):
            # Of a terminal it says that nobody is there any more.
            loop.add_signal_handler(signal.SIGHUP, lambda: node.runtime.spawn(_reload, node, label="reload"))
        return await node.wait()

    living = asyncio.create_task(live(), name="node")
    stopped = asyncio.create_task(stopping.wait(), name="stop signal")
    await asyncio.wait({living, stopped}, return_when=asyncio.FIRST_COMPLETED)
    told_to_stop = not living.done()
    living.cancel()
    stopped.cancel()
    await asyncio.wait({living, stopped})
    await node.stop()
    if told_to_stop or (failure := living.result()) is None:
        return ExitCode.DONE
    print_error(str(failure), as_json=as_json)
    return ExitCode.NODE_ENDED
