"""Has balancers decide about the ranges that a node leads, one command at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

import structlog

from gossamer.basekv.balancing import (
    AwaitBalance,
    BalanceNow,
    Balancer,
    Command,
    RangeLoad,
    RangesView,
    built_in,
)
from gossamer.basekv.machine import RangeMachine
from gossamer.basekv.ranges import FIRST_RANGES
from gossamer.basekv.values import RangeInfo

log = structlog.get_logger(__name__)

GROUP = "gossamer.balancers"
EVERY = 5.0
"""Seconds between two looks."""


def balancers() -> dict[str, Balancer]:
    """Return all balancers by name: those that every node has, and those of packages that are installed. One
    that cannot be loaded is logged, and left out."""
    found = built_in()
    for entry in entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()()
        except Exception as error:
            # It is a stranger's code, and no reason to be without a node.
            log.exception("balancer_not_loaded", balancer=entry.name, error=str(error))
    return found


class Balancing:
    """What a node's balancers have seen, and when they are to be asked again."""

    def __init__(self, balancers: Mapping[str, Balancer]) -> None:
        self.balancers = dict(balancers)
        self._looked = 0.0
        self._due: dict[str, float] = {}
        self._writes: dict[int, tuple[RangeMachine, int]] = {}
        """Of each range its state machine, and how many writes that had done at the last look."""

    def next(
        self,
        led: Mapping[int, RangeMachine],
        ranges: Iterable[RangeInfo],
        sizes: Mapping[int, int],
        now: float,
    ) -> tuple[str, Command] | None:
        """Return what is to be done now, and who wants it; None: nothing, or it is not yet time to look."""
        if now - self._looked < EVERY:
            return None
        seconds, self._looked = now - self._looked, now
        loads = tuple(self._load(machine, seconds) for machine in led.values())
        self._writes = {number: (machine, machine.writes) for number, machine in led.items()}
        view = RangesView(tuple(ranges), sizes, loads, FIRST_RANGES)
        for name, balancer in self.balancers.items():
            if now < self._due.get(name, 0.0):
                continue
            try:
                decision = balancer.balance(view, now)
            except Exception as error:
                log.exception("balancer_failed", balancer=name, error=str(error))
                continue
            if isinstance(decision, AwaitBalance):
                self._due[name] = now + decision.delay
            elif isinstance(decision, BalanceNow):
                return name, decision.command
        return None

    def _load(self, machine: RangeMachine, seconds: float) -> RangeLoad:
        known, before = self._writes.get(machine.range.number, (None, 0))
        writes = (machine.writes - before) / seconds if known is machine else 0.0
        changes = machine.merging is not None or machine.sealed is not None
        return RangeLoad(machine.range, machine.rows.bytes, len(machine.rows), writes, changes)
