"""Node as a child: ``gossamer start`` as an operating-system process behind a supervised process.

Rules: 1. Stopped in order, a node is terminated, waited for, and killed after a limit; the supervisor gives
it more time than that.  2. It leads a session of its own, so that Ctrl-C reaches the launcher alone, and dies
with the launcher, however that dies.  3. Its output goes to its own log file.  4. A cluster is ready once
``/ready`` of every node succeeds and lists every other; a node that does not answer yet is not an error.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence

import httpx

from gossamer.errors import UnavailableError
from gossamer.launch.plan import ClusterPlan, NodePlan
from gossamer.supervisor import NoReply, OsProcess, Reason, Reply, Stop, describe

STOP_LIMIT = 10.0
"""Seconds between SIGTERM and SIGKILL."""
_RETRY_INTERVAL = 0.1
_LOG_LINES = 12

# Set for one node by its file, so they must not come to all from the environment.
_PER_NODE = (
    "GOSSAMER_NODE__",
    "GOSSAMER_CLUSTER__ENV",
    "GOSSAMER_CLUSTER__HOST",
    "GOSSAMER_CLUSTER__PORT",
    "GOSSAMER_CLUSTER__SEED_ENDPOINTS",
    "GOSSAMER_DISTRIBUTION__HOST",
    "GOSSAMER_DISTRIBUTION__PORT",
    "GOSSAMER_MQTT__SERVER__",
    "GOSSAMER_API__",
)

# What the user runs beside the broker is the same at all nodes.
_APPLICATIONS = "GOSSAMER_NODE__APPLICATIONS"


def node_environment() -> dict[str, str]:
    """This process's environment, but for what each node has in a file of its own."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == _APPLICATIONS or not name.startswith(_PER_NODE)
    }


class NodeProcess(OsProcess):
    """Runs one node; a call returns the pid of its operating-system process.

    ``on_end(plan, reason)`` is called after an unexpected end, before the supervisor gets it. ``prefix`` is a
    command that runs the node, such as ``ip netns exec SPACE``; it must become the node by exec.
    """

    async def init(  # type: ignore[override]
        self,
        plan: NodePlan,
        *,
        environ: Mapping[str, str],
        on_end: Callable[[NodePlan, Reason], None],
        prefix: Sequence[str] = (),
    ) -> None:
        self._plan = plan
        self._on_end = on_end
        start = [sys.executable, "-m", "gossamer.cli", "start"]
        options = ["-c", str(plan.config_file), "--log-file", str(plan.log_file)]
        await super().init([*prefix, *start, *options], env=environ, grace=STOP_LIMIT)

    async def handle_call(self, request: object, caller: object) -> Reply:
        return Reply(self.pid)

    async def handle_info(self, message: object) -> NoReply | Stop | None:
        outcome = await super().handle_info(message)
        if isinstance(outcome, Stop):
            self._on_end(self._plan, outcome.reason)
        return outcome


def describe_end(reason: Reason) -> str:
    """Describe how the process of a node ended."""
    match reason:
        case ("exit_status", code):
            return f"exit code {code}"
        case ("signal", name):
            return f"killed by {name}"
        case "normal":
            return "exit code 0"
        case _:
            return describe(reason)


class NodeEndedError(UnavailableError):
    """A node ended before the cluster was ready; ``logged``: bytes that its log had before."""

    def __init__(self, node: NodePlan, reason: Reason, logged: int = 0) -> None:
        try:
            log = node.log_file.read_bytes()[logged:].decode("utf-8", "replace")
        except FileNotFoundError:
            log = ""
        tail = "".join(f"\n  {line}" for line in log.splitlines()[-_LOG_LINES:]) or "\n  (nothing)"
        how = describe_end(reason)
        super().__init__(f"{node.name} ended at start ({how}); its log, {node.log_file}, ends with:{tail}")


async def wait_until_ready(
    plan: ClusterPlan, *, seconds: float, progress: Callable[[Mapping[str, str]], None]
) -> None:
    """Return once every node is ready and sees all others.

    Raises:
        UnavailableError: with what each node lacks.
    """
    names = {node.name for node in plan.nodes}
    ca_file = plan.nodes[0].ca_file
    trust = False if ca_file is None else await asyncio.to_thread(ssl.create_default_context, cafile=ca_file)
    missing = dict.fromkeys(names, "starting")
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(timeout=2.0, trust_env=False, verify=trust) as client,
        ):
            while missing:
                answers = await asyncio.gather(*(_ask(client, node) for node in plan.nodes))
                lacks = {
                    node.name: missing_of(answer, names)
                    for node, answer in zip(plan.nodes, answers, strict=True)
                }
                missing = {name: lack for name, lack in lacks.items() if lack}
                progress(missing)
                if missing:
                    await asyncio.sleep(_RETRY_INTERVAL)
    except TimeoutError:
        lines = "".join(f"\n  {name}: {what}" for name, what in sorted(missing.items()))
        what = f"the cluster is not ready after {seconds:g} s; see node.log of each node:{lines}"
        raise UnavailableError(what) from None


async def _ask(client: httpx.AsyncClient, node: NodePlan) -> object:
    try:
        return (await client.get(f"{node.api}/ready")).json()
    except (httpx.TransportError, ValueError):
        return None


def missing_of(answer: object, names: set[str]) -> str:
    """Describe what a node lacks, from its answer to ``/ready``; empty: nothing."""
    if not isinstance(answer, dict):
        return "does not answer yet"
    # One that serves may still wait for another; here all are wanted.
    if not answer.get("ready") or answer.get("waiting"):
        return ", ".join(answer.get("waiting", ())) or "not ready"
    unseen = names - set(answer.get("members", ()))
    return f"does not see {', '.join(sorted(unseen))}" if unseen else ""
