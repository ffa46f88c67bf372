"""Where the nodes of a run are: the namespaces that drills have, and a disc that can be filled.

Clients are in the hub, so they reach every node through every cut; what is lost is between nodes. Whatever
was made is taken away by a process of its own when this one ends, however it ends.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gossamer.drill.stage.backend import BackEndError, LinkFault
from gossamer.drill.stage.netns import Namespaces, check_rights


def able() -> str:
    """Why this machine or this user cannot have namespaces; empty: they can."""
    try:
        check_rights()
    except BackEndError as error:
        return str(error)
    missing = [tool for tool in ("nft", "mount") if shutil.which(tool) is None]
    return f"no {', '.join(missing)} here" if missing else ""


class Network:
    """``disc``: where a small disc is mounted, which is gone in the end."""

    def __init__(self, nodes: int, disc: Path | None) -> None:
        self._spaces = Namespaces(nodes, abilities=frozenset({"loss"}))
        self._numbers = {str(node): node for node in range(1, nodes + 1)}
        self._disc = disc

    def host(self, node: int) -> str:
        return self._spaces.plan.host(node)

    def space(self, node: int) -> str:
        return self._spaces.plan.space(node)

    def open(self) -> None:
        """Make them, and move this thread to where the clients are."""
        self._spaces.open()
        if self._disc is not None:
            assert self._spaces.janitor is not None
            self._disc.mkdir(parents=True, exist_ok=True)
            self._spaces.janitor.run("umount", "-l", str(self._disc))
            mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "gossamer-history", str(self._disc)]
            subprocess.run(mount, check=True, timeout=30)

    def lose(self, shares: Mapping[tuple[int, int], float]) -> None:
        """Drop just these shares of the packets from one node to another."""
        faults = [
            LinkFault(str(source), str(target), cut=share >= 1, loss=share)
            for (source, target), share in shares.items()
        ]
        self._spaces.apply(faults, self._numbers)

    def close(self) -> None:
        """Move this thread back and have everything taken away. May be called again."""
        self._spaces.close()
