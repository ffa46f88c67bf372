"""What a client cannot do, as leaves of the one error tree.

::

    UsageError
    ├── TargetError        what was given to attach to is no node of a cluster
    └── RefusedError       the node will not do what was asked
    UnavailableError
    └── NotAttachedError   no node of those given could be reached in time
"""

from __future__ import annotations

from gossamer.errors import UnavailableError, UsageError

__all__ = ["NotAttachedError", "RefusedError", "TargetError"]


class TargetError(UsageError):
    """What to attach to cannot be understood."""

    def __init__(self, *, got: str, expected: str) -> None:
        self.got = got
        self.expected = expected
        super().__init__(f"client: got {got}; expected {expected}")


class RefusedError(UsageError):
    """The node says no."""

    def __init__(self, *, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what}: {reason}")


class NotAttachedError(UnavailableError):
    """The client is attached to no node now."""

    def __init__(self, *, waited: float, tried: str, last: str) -> None:
        self.waited = waited
        self.tried = tried
        self.last = last
        super().__init__(
            f"attached to no node within {waited:g} s; tried {tried}, last: {last or 'no answer'}; "
            "it is tried again, check that a node runs there and that the cookie is its cookie"
        )
