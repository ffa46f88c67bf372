"""Namespaces of the kernel, one a node and one for the clients: packets that are really dropped, and discs
that are really full.

::

    hub ── bridge 10.78.0.254 ─┬─ cable 10.78.0.1, node 1
    (clients)                  └─ cable 10.78.0.2, node 2, …

Rules: 1. Clients reach every node through every cut; what is lost is between nodes.  2. A cut is a rule of
nftables at the receiver, so nobody is told.  3. What was made is taken away by a process of its own that
waits for this one to end, however it ends; it kills what runs in the namespaces of nodes first.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_NET = "10.78.0"
_HUB = 254
_CLONE_NEWNET = 0x40000000
_serials = itertools.count(1)
_CLEAN_UP = """\
read -r _
for place in {mounts}; do umount -l "$place" 2>/dev/null; done
for space in {spaces}; do
  [ -e /run/netns/$space ] || continue
  for round in 1 2 3 4 5; do
    pids=$(ip netns pids $space); [ -z "$pids" ] && break
    kill -9 $pids 2>/dev/null; sleep 0.2
  done
  ip netns delete $space
done
[ -e /run/netns/{hub} ] && ip netns delete {hub}
for place in {mounts}; do umount -l "$place" 2>/dev/null; done
true
"""


def able() -> str:
    """Why this machine or this user cannot have namespaces; empty: they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "nft", "mount") if shutil.which(tool) is None]
    return f"no {', '.join(missing)} here" if missing else ""


class Namespaces:
    """``discs``: places of node number to mount a small disc at, removed in the end."""

    def __init__(self, nodes: int, discs: Iterable[Path] = ()) -> None:
        stem = f"gmt-{os.getpid()}-{next(_serials)}"
        self.nodes = range(1, nodes + 1)
        self.hub = f"{stem}-hub"
        self.spaces = {node: f"{stem}-{node}" for node in self.nodes}
        self._discs = list(discs)
        self._home = -1
        self._janitor: subprocess.Popen[bytes] | None = None
        self._lost: dict[tuple[int, int], float] = {}

    def host(self, node: int) -> str:
        return f"{_NET}.{node}"

    def open(self) -> None:
        """Make them, and move this thread to where the clients are."""
        script = _CLEAN_UP.format(
            spaces=" ".join(self.spaces.values()),
            hub=self.hub,
            mounts=" ".join(f"'{disc}'" for disc in self._discs) or "''",
        )
        self._janitor = subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, start_new_session=True, stderr=subprocess.DEVNULL
        )
        for disc in self._discs:
            disc.mkdir(parents=True, exist_ok=True)
            _run("mount", "-t", "tmpfs", "-o", "size=48m", "gossamer-history", str(disc))
        hub = [
            "link set lo up",
            "link add bridge type bridge forward_delay 0",
            f"address add {_NET}.{_HUB}/24 dev bridge",
            "link set bridge up",
        ]
        _run("ip", "netns", "add", self.hub)
        for node, space in self.spaces.items():
            _run("ip", "netns", "add", space)
            hub += [
                f"link add node{node} type veth peer name cable netns {space}",
                f"link set node{node} master bridge up",
            ]
        _run("ip", "-n", self.hub, "-batch", "-", text="\n".join(hub) + "\n")
        for node, space in self.spaces.items():
            lines = ["link set lo up", f"address add {self.host(node)}/24 dev cable", "link set cable up"]
            _run("ip", "-n", space, "-batch", "-", text="\n".join(lines) + "\n")
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        enter(os.open(f"/run/netns/{self.hub}", os.O_RDONLY | os.O_CLOEXEC))

    def prefix(self, node: int) -> list[str]:
        """What runs a command where the node is."""
        return ["ip", "netns", "exec", self.spaces[node]]

    def lose(self, source: int, target: int, share: float) -> None:
        """Drop that share of the packets from source to target; 0: none any more."""
        if share:
            self._lost[source, target] = share
        else:
            self._lost.pop((source, target), None)
        rules = "".join(
            f"    ip saddr {self.host(origin)}"
            + ("" if lost >= 1 else f" numgen random mod 1000 < {round(lost * 1000)}")
            + " drop\n"
            for (origin, receiver), lost in sorted(self._lost.items())
            if receiver == target
        )
        chain = f"  chain heard {{\n    type filter hook prerouting priority -300;\n{rules}  }}\n"
        text = f"table ip history\ndelete table ip history\ntable ip history {{\n{chain}}}\n"
        _run(*self.prefix(target), "nft", "-f", "-", text=text)

    def close(self) -> None:
        """Move this thread back and have everything taken away. May be called again."""
        if self._home >= 0:
            enter(self._home)
            self._home = -1
        janitor, self._janitor = self._janitor, None
        if janitor is not None and janitor.stdin is not None:
            janitor.stdin.close()
            janitor.wait(60)


def enter(descriptor: int) -> None:
    """Move this thread; closes the descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        # os.setns is there from Python 3.12 on.
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def _run(*command: str, text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
