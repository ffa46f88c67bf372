"""Keeper of the ranges that a node leads: once a second it has every node know them, goes on with merges that
are under way, gives the groups up whose keys are another's, and does what balancers want done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from gossamer.basekv.balanced import Balancing, balancers
from gossamer.basekv.balancing import Command, SplitRange
from gossamer.basekv.changes import Merging
from gossamer.basekv.machine import RangeMachine
from gossamer.basekv.merging import carry
from gossamer.basekv.sending import ask_range
from gossamer.basekv.server import BASEKV, Learn, ListRanges, MergeFrom, SplitAt
from gossamer.basekv.values import Middle, RangeInfo, Value, decode_answer, encode, kind_of, number_of
from gossamer.errors import GossamerError
from gossamer.raft import PATIENCE, RAFT, GiveUp, RaftStatus, read
from gossamer.supervisor import CallFailed, GenServer, Pid, call, cast, self_pid, send, send_after, spawn_link

log = structlog.get_logger(__name__)

LOOK = 1.0
RETIRED = 30.0
"""Seconds for which a range whose keys are another's still says so to whoever does not know."""
_LOOK, _WORKED = "look", "worked"


class Directory(Protocol):
    """The ranges of the cluster, as their leaders have told every node."""

    def ranges(self) -> Iterable[RangeInfo]:
        """Return all, those that have no keys any more among them."""

    def sizes(self) -> dict[int, int]:
        """Return about how many bytes each has."""

    def enter(self, info: RangeInfo, size: int) -> None:
        """Have every node know a range, and about how many bytes it has."""

    def is_gone(self, number: int) -> bool:
        """Return whether a range's group was given up."""


class RangeKeeper(GenServer):
    """``status`` has the replicas of this node; ``directory()`` is None until it is there; ``changes()``: all
    nodes of the cluster can split and merge ranges."""

    async def init(
        self,
        status: RaftStatus,
        directory: Callable[[], Directory | None],
        *,
        changes: Callable[[], bool] = lambda: True,
    ) -> None:
        self._changes = changes
        self._balancing = Balancing(balancers())
        self._at_work = False
        """A command of a balancer is being done."""
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
            # Where ranges do not change there is nothing to tell, and nothing for two sides to differ in.
            if self._changes() and (directory := self._directory()) is not None:
                await self._look(directory)
        elif message == _WORKED:
            self._at_work = False
        elif isinstance(message, int):
            self._carrying.discard(message)

    async def _look(self, directory: Directory) -> None:
        known = {info.number: info for info in directory.ranges()}
        news = [info for info in known.values() if info.version > self._told.get(info.number, 0)]
        if news:
            self._told |= {info.number: info.version for info in news}
            cast(BASEKV, Learn(news))
        led, sizes = led_ranges(self._status), directory.sizes()
        for number, machine in led.items():
            info, merging = machine.range, machine.merging
            if machine.sealed is not None and machine.sealed.by is not None:
                await self._retire(number)
                continue
            # About: or every write would be news to all nodes.
            size = 2 ** machine.rows.bytes.bit_length()
            if number not in known or known[number].version < info.version or size != sizes.get(number):
                directory.enter(info, size)
            if merging is not None and number not in self._carrying:
                self._carrying.add(number)
                spawn_link(_carry, self_pid(), info, merging, directory, label=f"merge {kind_of(number)}")

        if not self._at_work:
            await self._balance(led, sizes)

    async def _balance(self, led: dict[int, RangeMachine], sizes: dict[int, int]) -> None:
        ranges: list[RangeInfo] = await call(BASEKV, ListRanges())
        due = self._balancing.next(led, ranges, sizes, self.process.loop.time())
        if due is not None:
            self._at_work = True
            name, command = due
            log.info("range_balanced", balancer=name, command=type(command).__name__, range=command.number)
            spawn_link(_do, self_pid(), command, led.get(command.number), label=f"balancer {name}")

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


async def _do(keeper: Pid, command: Command, machine: RangeMachine | None) -> None:
    try:
        asked: SplitAt | MergeFrom = MergeFrom(command.number)
        if isinstance(command, SplitRange):
            version = 0 if machine is None else machine.range.version
            data = await read(kind_of(command.number), encode(Middle(version)))
            middle = decode_answer(data)
            if not isinstance(middle, Value) or middle.value is None:
                return
            asked = SplitAt(middle.value)
        answer = await call(BASEKV, asked, 2 * PATIENCE)
        if isinstance(answer, Exception):
            log.debug("range_not_balanced", range=command.number, error=str(answer))
    except (GossamerError, CallFailed) as error:
        log.debug("range_not_balanced", range=command.number, error=str(error))
    finally:
        send(keeper, _WORKED)
