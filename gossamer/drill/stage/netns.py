"""Back end for root: every node in a network namespace, and packets dropped by the kernel.

Nodes run without the fault gate, on kernel sockets, so the drill shows the effects of a real network. A
janitor removes the namespaces, and the faults with them, when they are closed or the drill dies.

Rules: 1. Namespaces are named after this process; leftovers of a dead process are removed when the next are
created.  2. While they are open, the thread that opened them is in the hub, and so are threads and processes
that it starts; closing moves it back. Commands name their namespace, so any thread may run them.
3. Closing may come at any time and again.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import structlog

from gossamer.drill.record import BackEndName
from gossamer.drill.stage.backend import Ability, BackEnd, BackEndError, LinkFault, abilities_for
from gossamer.drill.stage.janitor import Janitor
from gossamer.drill.stage.netplan import CABLE, HUB, Maker, NetPlan, cuts_of, maker_of, slow_of
from gossamer.launch import ClusterPlan, NodePlan

log = structlog.get_logger(__name__)

NAME = "netns"
_WHERE = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_COMMAND_TIMEOUT = 30
PORTS = {"mqtt": 1883, "api": 8091, "gossip": 7946, "distribution": 4370}
"""Well-known ports for all nodes, since no two share an address."""
_serials = itertools.count(1)


def check_rights() -> None:
    """Raise :class:`BackEndError` if namespaces obviously cannot be created."""
    if os.geteuid() != 0:
        raise _error("network namespaces need root", "run this by sudo, or take --backend gate")
    if shutil.which("ip") is None:
        raise _error(
            "there is no command `ip`",
            "install iproute2 (`apt-get install iproute2`), or take --backend gate",
        )


def abilities_here() -> frozenset[Ability]:
    """Return the abilities of this kernel and its tools, tested in a temporary namespace."""
    plan = NetPlan(_this_maker(), next(_serials), 0)
    hub = plan.space(0)
    able: set[Ability] = set()
    _run("ip", "netns", "add", hub)
    try:
        if _can("tc", "-n", hub, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"):
            able |= {"delay", "loss"}
        elif _can("ip", "netns", "exec", hub, "nft", "-f", "-", text=plan.loss_text({1: 0.5})):
            able.add("loss")
    finally:
        _run("ip", "netns", "delete", hub)
    return frozenset(able)


def _this_maker() -> Maker:
    """Return the id of this process."""
    return Maker(os.getpid(), _started(os.getpid()) or 0)


def leftovers() -> list[str]:
    """Return the namespaces of drills whose process has ended."""
    if not _WHERE.is_dir():
        return []
    makers = ((path.name, maker_of(path.name)) for path in sorted(_WHERE.iterdir()))
    return [name for name, maker in makers if maker is not None and _started(maker.pid) != maker.started]


class Namespaces:
    """``nodes`` namespaces at a bridge; ``abilities`` as :func:`abilities_here` found them."""

    def __init__(self, nodes: int, *, abilities: frozenset[Ability]) -> None:
        self.plan = NetPlan(_this_maker(), next(_serials), nodes)
        self.janitor: Janitor | None = None
        self._abilities = abilities
        self._cuts: dict[int, frozenset[int]] = {}
        self._slow: set[int] = set()
        self._losing: set[int] = set()
        self._home: tuple[int, int] | None = None
        """Original namespace of the thread that opened this, as a descriptor, and that thread."""

    def open(self) -> None:
        """Create the namespaces and move this thread into the hub; leftovers are removed first."""
        for space in leftovers():
            log.info("drill_leftover_removed", namespace=space)
            _run("sh", "-c", _removal(space))
        plan, self.janitor = self.plan, Janitor()
        for space in plan.spaces():
            self.janitor.run("sh", "-c", _removal(space))
            _run("ip", "netns", "add", space)
        _batch("ip", plan.space(0), plan.hub_lines())
        for node in range(1, plan.nodes + 1):
            _batch("ip", plan.space(node), plan.node_lines(node))
            # Otherwise packets of open connections skip the route lookup, and so pass a cut.
            early = "echo 0 > /proc/sys/net/ipv4/ip_early_demux"
            _run("ip", "netns", "exec", plan.space(node), "sh", "-c", early)
        self._home = (os.open("/proc/thread-self/ns/net", os.O_RDONLY), threading.get_ident())
        enter(plan.space(0))

    def apply(self, faults: Sequence[LinkFault], numbers: Mapping[str, int]) -> None:
        """Apply exactly these faults. ``numbers``: node numbers by name."""
        missing = next((able for able in abilities_for(faults) if able not in self._abilities), None)
        if missing is not None:
            raise _error(
                f"this kernel has no netem, so no {missing} can be put on a link here",
                "load it (`modprobe sch_netem`, in Debian's kernel and in kernel-modules-extra elsewhere), "
                "or take --backend gate",
            )
        cuts, slow = cuts_of(faults, numbers), slow_of(faults, numbers)
        if "delay" not in self._abilities:
            self._lose(slow)
            slow = {}
        for node in sorted(self._slow | set(slow)):
            self._slow_down(node, slow.get(node, {}))
        # Cuts last and in parallel, to come as one.
        nodes = range(1, self.plan.nodes + 1)
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: self._cut(node, cuts.get(node, frozenset())), nodes))

    def _cut(self, node: int, new: frozenset[int]) -> None:
        if lines := self.plan.cut_lines(self._cuts.get(node, frozenset()), new):
            _batch("ip", self.plan.space(node), lines)
            self._cuts[node] = new

    def _slow_down(self, node: int, slow: Mapping[int, LinkFault]) -> None:
        space = self.plan.space(node)
        if node in self._slow:
            _run("tc", "-n", space, "qdisc", "delete", "dev", CABLE, "root")
            self._slow.discard(node)
        if slow:
            # Recorded first, so that a half-applied one is removed too.
            self._slow.add(node)
            _batch("tc", space, self.plan.slow_lines(slow))

    def _lose(self, slow: Mapping[int, Mapping[int, LinkFault]]) -> None:
        heard: dict[int, dict[int, float]] = {}
        for source, targets in slow.items():
            for target, fault in targets.items():
                heard.setdefault(target, {})[source] = fault.loss
        for node in sorted(self._losing | set(heard)):
            nft = "ip", "netns", "exec", self.plan.space(node), "nft", "-f", "-"
            _run(*nft, text=self.plan.loss_text(heard.get(node, {})))
        self._losing = set(heard)

    def close(self) -> None:
        """Move this thread back and remove all namespaces, with the processes in them."""
        if self._home is not None:
            descriptor, thread = self._home
            if thread == threading.get_ident():
                _set_namespace(descriptor)
            os.close(descriptor)
            self._home = None
        if self.janitor is not None:
            self.janitor.close()


class NetnsBackEnd(BackEnd):
    """Back end whose faults are kernel rules.

    Raises:
        BackEndError: this process or machine cannot do it; on construction, before anything is created.
    """

    name: BackEndName = "netns"
    # The drill does not connect from loopback, and no other client can connect at all.
    settings: ClassVar[Mapping[str, str]] = {"GOSSAMER_API__ANONYMOUS_ROLE": "viewer"}

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        check_rights()
        self.abilities: frozenset[Ability] = abilities_here()
        super().__init__(ended=ended)
        self._net = Namespaces(0, abilities=self.abilities)

    def _place(self, nodes: int, directory: Path) -> ClusterPlan:
        plan = super()._place(nodes, directory)
        self._net = Namespaces(nodes, abilities=self.abilities)
        self._net.open()
        hosts = [self._net.plan.host(number) for number in range(1, nodes + 1)]
        placed = (
            replace(node, name=f"node{number}@{host}", host=host, ports=dict(PORTS))
            for number, (node, host) in enumerate(zip(plan.nodes, hosts, strict=True), 1)
        )
        return replace(plan, nodes=tuple(placed))

    def _prefix(self, node: NodePlan) -> tuple[str, ...]:
        return "ip", "netns", "exec", self._net.plan.space(self.nodes.index(node) + 1)

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        numbers = {node.name: number for number, node in enumerate(self.nodes, 1)}
        await asyncio.to_thread(self._net.apply, faults, numbers)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            self._net.close()


def _removal(space: str) -> str:
    """Return the script that removes a namespace and a node's processes in it, safe to run concurrently."""
    end = "" if space.endswith(HUB) else f"ip netns pids {space} | xargs -r kill -9; "
    gone = f"test ! -e {_WHERE / space}"
    return f"{gone} || {{ {end}ip netns delete {space}; }} || {gone}"


def _started(pid: int) -> int | None:
    """Return the start time of a process in ticks; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may contain blanks; a zombie counts as ended.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else int(fields[19])


def enter(space: str) -> None:
    """Move this thread into a namespace."""
    descriptor = os.open(_WHERE / space, os.O_RDONLY)
    try:
        _set_namespace(descriptor)
    finally:
        os.close(descriptor)


def _set_namespace(descriptor: int) -> None:
    # os.setns exists from Python 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        reason = os.strerror(ctypes.get_errno())
        raise _error(f"no entering of a namespace: {reason}", _CONTAINER)


_CONTAINER = "a container needs to be privileged for that (CAP_SYS_ADMIN); or take --backend gate"


def _error(reason: str, remedy: str) -> BackEndError:
    return BackEndError(backend=NAME, reason=reason, remedy=remedy)


def _batch(program: str, space: str, lines: Sequence[str]) -> None:
    _run(program, "-n", space, "-batch", "-", text="".join(f"{line}\n" for line in lines))


def _can(*command: str, text: str = "") -> bool:
    try:
        _run(*command, text=text)
    except BackEndError:
        return False
    return True


def _run(*command: str, text: str = "") -> str:
    """Run a command and return its output. Raises :class:`BackEndError` with its error output."""
    try:
        done = subprocess.run(  # noqa: S603
            command, input=text, capture_output=True, text=True, check=False, timeout=_COMMAND_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        remedy = "install iproute2, or take --backend gate"
        raise _error(f"`{' '.join(command)}`: {error}", remedy) from error
    if done.returncode:
        complaint = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise _error(f"`{' '.join(command)}`: {complaint}", _CONTAINER)
    return done.stdout
