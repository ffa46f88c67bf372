"""Balancers of ranges: pure, asked about once in five seconds by each node about the ranges that it leads.

A balancer sees what its node knows (:class:`RangesView`) and says what should be done now, when to ask again,
or that it is well as it is; a node does one thing at a time. Where replicas are, and who should lead, is the
placement of groups (``raft.host.placement``), which every group has.

Others come from packages, by the entry point group ``gossamer.balancers``: a callable without arguments that
makes a :class:`Balancer`, under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from gossamer.basekv.values import MAX_RANGE, RangeInfo


@dataclass(frozen=True, slots=True)
class RangeLoad:
    """A range that this node leads: bytes and number of its keys and values, writes a second, and whether a
    merge is under way."""

    range: RangeInfo
    bytes: int
    keys: int
    writes: float
    changes: bool = False


@dataclass(frozen=True, slots=True)
class RangesView:
    """The ranges of the cluster in order, as this node knows them, with about how many bytes each has; and
    those that it leads. ``first`` is how many the cluster began with, by number."""

    ranges: tuple[RangeInfo, ...]
    bytes: Mapping[int, int]
    led: tuple[RangeLoad, ...]
    first: int


@dataclass(frozen=True, slots=True)
class SplitRange:
    """Split a range where half of its bytes are."""

    number: int


@dataclass(frozen=True, slots=True)
class MergeRange:
    """Have a range take over its neighbour on the right."""

    number: int


Command: TypeAlias = SplitRange | MergeRange


@dataclass(frozen=True, slots=True)
class BalanceNow:
    """Do this."""

    command: Command


@dataclass(frozen=True, slots=True)
class AwaitBalance:
    """Ask again after so many seconds, and do nothing before."""

    delay: float


@dataclass(frozen=True, slots=True)
class NoNeedBalance:
    """It is well as it is."""


Decision: TypeAlias = BalanceNow | AwaitBalance | NoNeedBalance


class Balancer(Protocol):
    """What decides; ``now`` never goes back. It may keep what it has seen."""

    def balance(self, view: RangesView, now: float) -> Decision:
        """Return what is to be done."""


@dataclass(slots=True)
class SplitBySize:
    """Splits a range that has had more than ``bytes``, or more than ``writes`` a second and something to
    divide, for ``patience`` seconds; no more than ``most`` ranges."""

    bytes: int = MAX_RANGE // 2
    writes: float = 2000.0
    patience: float = 10.0
    most: int = 1000
    _since: dict[int, float] = field(default_factory=dict)

    def balance(self, view: RangesView, now: float) -> Decision:
        due = [load for load in view.led if not load.changes and self._is_large(load)]
        self._since = {one.range.number: self._since.get(one.range.number, now) for one in due}
        if not due or len(view.ranges) >= self.most:
            return NoNeedBalance()
        number, since = min(self._since.items(), key=lambda pair: pair[1])
        left = since + self.patience - now
        return AwaitBalance(left) if left > 0 else BalanceNow(SplitRange(number))

    def _is_large(self, load: RangeLoad) -> bool:
        return load.bytes > self.bytes or (load.writes > self.writes and load.keys > 1)


@dataclass(slots=True)
class MergeSmall:
    """Joins a range to its neighbour on the left where both together have had fewer than ``bytes`` for
    ``patience`` seconds. The ranges with which the cluster began stay: they spread its load."""

    bytes: int = 2 * 2**20
    patience: float = 300.0
    _since: dict[tuple[int, int], float] = field(default_factory=dict)

    def balance(self, view: RangesView, now: float) -> Decision:
        led = {load.range.number: load for load in view.led}
        due = [
            (left.number, right.number)
            for left, right in zip(view.ranges, view.ranges[1:], strict=False)
            if left.number in led
            and right.number >= view.first
            and self._are_small(led[left.number], right, view)
        ]
        self._since = {pair: self._since.get(pair, now) for pair in due}
        if not due:
            return NoNeedBalance()
        (number, _), since = min(self._since.items(), key=lambda item: item[1])
        left_over = since + self.patience - now
        return AwaitBalance(left_over) if left_over > 0 else BalanceNow(MergeRange(number))

    def _are_small(self, left: RangeLoad, right: RangeInfo, view: RangesView) -> bool:
        size = view.bytes.get(right.number)
        return not left.changes and size is not None and left.bytes + size < self.bytes


def built_in() -> dict[str, Balancer]:
    """Return the balancers that every node has, by name."""
    return {"split": SplitBySize(), "merge": MergeSmall()}
