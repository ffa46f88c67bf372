"""When is a cluster ready? Once every node says so and names every other.

Rules: 1. ``/ready`` of each node is asked, all at once, until all agree or time is up.  2. A node that does
not answer yet is not an error; what it lacks is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import httpx

from gossamer.errors import UnavailableError
from gossamer.launch.plan import ClusterPlan, NodePlan

_PAUSE = 0.1


class NotReadyError(UnavailableError):
    """The cluster did not come together in time."""

    def __init__(self, *, seconds: float, missing: Mapping[str, str]) -> None:
        self.seconds = seconds
        self.missing = dict(missing)
        lines = "".join(f"\n  {name}: {what}" for name, what in missing.items())
        super().__init__(f"the cluster is not ready after {seconds:g} s; see node.log of each node:{lines}")


async def wait_until_ready(
    plan: ClusterPlan, *, seconds: float, progress: Callable[[Mapping[str, str]], None]
) -> None:
    """Return once every node is ready and sees all others.

    Raises:
        NotReadyError: with what each node lacks.
    """
    missing: dict[str, str] = {node.name: "starting" for node in plan.nodes}
    try:
        async with asyncio.timeout(seconds), httpx.AsyncClient(timeout=2.0, trust_env=False) as client:
            while missing:
                answers = await asyncio.gather(*(_ask(client, node) for node in plan.nodes))
                names = {node.name for node in plan.nodes}
                missing = {
                    node.name: lack
                    for node, answer in zip(plan.nodes, answers, strict=True)
                    if (lack := missing_of(answer, names))
                }
                progress(missing)
                if missing:
                    await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise NotReadyError(seconds=seconds, missing=missing) from None


async def _ask(client: httpx.AsyncClient, node: NodePlan) -> object:
    try:
        return (await client.get(f"{node.api}/ready")).json()
    except (httpx.TransportError, ValueError):
        return None


def missing_of(answer: object, names: set[str]) -> str:
    """What a node lacks by its answer to ``/ready``; empty when nothing."""
    if not isinstance(answer, dict):
        return "does not answer yet"
    # One that serves may still wait for another; here all are wanted.
    if not answer.get("ready") or answer.get("waiting"):
        return ", ".join(answer.get("waiting", ())) or "not ready"
    unseen = names - set(answer.get("members", ()))
    return f"does not see {', '.join(sorted(unseen))}" if unseen else ""
