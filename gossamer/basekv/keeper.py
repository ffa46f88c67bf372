"""Keeper of the ranges that a node leads: once a second it has every node know them, goes on with merges that
are under way, and gives the groups up whose keys are another's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from gossamer.basekv.changes import Merging
from gossamer.basekv.machine import RangeMachine
from gossamer.basekv.merging import carry
from gossamer.basekv.sending import ask_range
from gossamer.basekv.server import BASEKV, Learn
from gossamer.basekv.values import RangeInfo, kind_of, number_of
from gossamer.errors import GossamerError
from gossamer.raft import RAFT, GiveUp, RaftStatus
from gossamer.supervisor import GenServer, Pid, call, cast, self_pid, send, send_after, spawn_link

log = structlog.get_logger(__name__)

LOOK = 1.0
RETIRED = 30.0
"""Seconds for which a range whose keys are another's still says so to whoever does not know."""
_LOOK = "look"


class Directory(Protocol):
    """The ranges of the cluster, as their leaders have told every node."""

    def ranges(self) -> Iterable[RangeInfo]:
        """Return all, those that have no keys any more among them."""

    def enter(self, info: RangeInfo) -> None:
        """Have every node know a range."""

    def is_gone(self, number: int) -> bool:
        """Return whether a range's group was given up."""


class RangeKeeper(GenServer):
    """``status`` has the replicas of this node; ``directory()`` is None until it is there."""

    async def init(self, status: RaftStatus, directory: Callable[[], Directory | None]) -> None:
        self._status = status
        self._directory = directory
        self._told: dict[int, int] = {}
        """Versions of the ranges that this node's writer knows by now."""
        self._carrying: set[int] = set()
        self._retired: dict[int, float] = {}
        send(self_pid(), _LOOK)

    async def handle_info(self, message: object) -> None:
        if message == _LOOK:
            send_after(LOOK, self_pid(), _LOOK)
            if (directory := self._directory()) is not None:
                await self._look(directory)
        elif isinstance(message, int):
            self._carrying.discard(message)

    async def _look(self, directory: Directory) -> None:
        known = {info.number: info for info in directory.ranges()}
        news = [info for info in known.values() if info.version > self._told.get(info.number, 0)]
        if news:
            self._told |= {info.number: info.version for info in news}
            cast(BASEKV, Learn(news))
        for number, machine in led_ranges(self._status).items():
            info, merging = machine.range, machine.merging
            if machine.sealed is not None and machine.sealed.by is not None:
                await self._retire(number)
                continue
            if number not in known or known[number].version < info.version:
                directory.enter(info)
            if merging is not None and number not in self._carrying:
                self._carrying.add(number)
                spawn_link(_carry, self_pid(), info, merging, directory, label=f"merge {kind_of(number)}")

    async def _retire(self, number: int) -> None:
        now = self.process.loop.time()
        if now - self._retired.setdefault(number, now) >= RETIRED:
            del self._retired[number]
            await call(RAFT, GiveUp(kind_of(number)))


def led_ranges(status: RaftStatus) -> dict[int, RangeMachine]:
    """Return the state machines of the ranges that this node leads."""
    found = {}
    for kind, replica in status.replicas.items():
        number = number_of(kind)
        if number is not None and replica.leads and isinstance(replica.machine, RangeMachine):
            found[number] = replica.machine
    return found


async def _carry(keeper: Pid, left: RangeInfo, merging: Merging, directory: Directory) -> None:
    ranges = {"left": left.number, "right": merging.number}
    try:
        done = await carry(left, merging, ask_range, gone=directory.is_gone)
        log.info("range_merged" if done else "range_merge_undone", **ranges)
    except GossamerError as error:
        log.debug("range_merge_waits", **ranges, error=str(error))
    finally:
        send(keeper, left.number)
