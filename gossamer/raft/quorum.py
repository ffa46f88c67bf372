"""Quorums: how far a majority has come, and whether a vote is won, in one configuration or two at once.

During a change of members two sets of voters decide jointly: each of them must have its majority (Ongaro,
"Consensus: Bridging Theory and Practice", 2014, section 4.3).

Rules: 1. Pure, and knows nothing of logs or terms.  2. A set without voters agrees to everything, so that a
configuration that is not joint is a joint one whose second set is empty.  3. Replicas that did not answer
count as having acknowledged nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

EVERYTHING = 1 << 63
"""Acknowledged by a set without voters."""


class Vote(enum.Enum):
    """State of a vote."""

    WON = "won"
    LOST = "lost"
    PENDING = "pending"


def majority(size: int) -> int:
    """Return the size of the smallest majority of ``size`` voters."""
    return size // 2 + 1


def acknowledged(voters: Collection[int], acks: Mapping[int, int]) -> int:
    """Return the largest index that a majority of ``voters`` has acknowledged; ``acks``: index by voter."""
    if not voters:
        return EVERYTHING
    ordered = sorted((acks.get(voter, 0) for voter in voters), reverse=True)
    return ordered[majority(len(ordered)) - 1]


def jointly_acknowledged(
    incoming: Collection[int], outgoing: Collection[int], acks: Mapping[int, int]
) -> int:
    """Return the largest index that both sets have acknowledged."""
    index = acknowledged(incoming, acks)
    return min(index, acknowledged(outgoing, acks)) if outgoing else index


def outcome(voters: Collection[int], votes: Mapping[int, bool]) -> Vote:
    """Return the state of a vote in which ``votes`` have been given; those of others do not count."""
    if not voters:
        return Vote.WON
    given = [votes[voter] for voter in voters if voter in votes]
    granted, needed = sum(given), majority(len(voters))
    if granted >= needed:
        return Vote.WON
    return Vote.LOST if granted + len(voters) - len(given) < needed else Vote.PENDING


def joint_outcome(incoming: Collection[int], outgoing: Collection[int], votes: Mapping[int, bool]) -> Vote:
    """Return the state of a vote that both sets must win."""
    found = {outcome(incoming, votes), outcome(outgoing, votes)}
    if Vote.LOST in found:
        return Vote.LOST
    return Vote.PENDING if Vote.PENDING in found else Vote.WON
