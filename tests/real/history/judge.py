"""All promises by name, and the verdict on a story."""

from __future__ import annotations

from . import checks, clusterwide
from .checks import Check, Violation
from .story import Story

PROMISES: dict[str, Check] = {
    "delivered": checks.delivered,
    "once": checks.once,
    "ordered": checks.ordered,
    "not_invented": checks.not_invented,
    "present": checks.present,
    "answered": checks.answered,
    "became_whole": checks.became_whole,
    "sound": checks.sound,
    "register": clusterwide.register,
    "wills": clusterwide.wills,
    "one_of_twins": clusterwide.one_of_twins,
    "shared": clusterwide.shared,
    "worked": clusterwide.worked,
    "routed": clusterwide.routed,
}

SESSIONS = ("delivered", "once", "ordered", "not_invented", "present", "answered", "became_whole", "sound")
"""What holds for any persistent session."""


def judge(
    story: Story, promises: tuple[str, ...] = tuple(PROMISES), *, strict: bool = False
) -> list[Violation]:
    """All violations of these promises, by time."""
    found: list[Violation] = []
    for name in promises:
        check = PROMISES[name]
        found += checks.present(story, strict=strict) if check is checks.present else check(story)
    return sorted(found, key=lambda violation: violation.at)
