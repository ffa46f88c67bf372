"""An application of a node that claims a name which has one holder, and writes down while it holds it.

Lines of the file that ``HOLDERS`` names: time by the clock that all processes of a machine share, node, and
fence.
"""

import asyncio
import os
import random
import time

from gossamer import Node
from gossamer.distribution import register_name
from gossamer.errors import GossamerError
from gossamer.supervisor import (
    ChildSpec,
    GenServer,
    Pid,
    Runtime,
    exit,  # noqa: A004
    self_pid,
    send,
    send_after,
    spawn_link,
)

NAME = "ledger"
EVERY = 0.02


class Holder(GenServer):
    """Writes a line every so often from when it is told its fence."""

    async def init(self, node: str) -> None:
        self.node = node
        self.fence = 0

    async def handle_info(self, message: object) -> None:
        if isinstance(message, int):
            self.fence = message
            self.file = os.open(os.environ["HOLDERS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self.file, f"{time.monotonic():.3f} {self.node} {self.fence}\n".encode())
        send_after(EVERY, self_pid(), "again")


async def claim(node: str) -> None:
    """Claim the name again and again, and hold it for some seconds."""
    runtime = Runtime.current()
    while True:
        await asyncio.sleep(random.uniform(0.1, 0.5))
        holder = await Holder.start(node)
        try:
            fence = await register_name(NAME, holder, cp=True)
        except GossamerError:
            fence = 0
        if not fence:
            exit(holder, "shutdown")
            continue
        send(holder, fence)
        until = time.monotonic() + random.uniform(2, 20)
        while runtime.alive(holder) and time.monotonic() < until:  # noqa: ASYNC110 - as a user would
            await asyncio.sleep(0.05)
        exit(holder, "shutdown")


def children(node: Node) -> list[ChildSpec]:
    """What the node runs."""

    async def start() -> Pid:
        return spawn_link(claim, node.name, label="claimant")

    return [ChildSpec("claimant", start)]
