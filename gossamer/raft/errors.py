"""Errors of consensus, each on the branch that says whose fault it is.

::

    UsageError        BadMembershipError
    PeerError         LyingReplicaError
    TransportError    DamagedLogError LogWriteError
    UnavailableError  NotReadyError UnknownOutcomeError
"""

from __future__ import annotations

from gossamer.errors import PeerError, TransportError, UnavailableError, UsageError


class BadMembershipError(UsageError):
    """A change of members that no group can make."""

    def __init__(self, *, expected: str, got: str) -> None:
        self.expected = expected
        self.got = got
        super().__init__(f"change of members: got {got}, expected {expected}")


class NotReadyError(UnavailableError):
    """The group cannot do this now; try again, at the leader where one is named."""

    def __init__(self, what: str, why: str, *, leader: int = 0) -> None:
        self.what = what
        self.why = why
        self.leader = leader
        at = f" at replica {leader}, the leader" if leader else ""
        super().__init__(f"{what}: {why}; try again{at}")


class UnknownOutcomeError(UnavailableError):
    """The leader of a request stepped down before it was answered."""

    def __init__(self) -> None:
        super().__init__(
            "request: its leader stepped down before it was answered, so it may be done or not; one that may "
            "be done twice can be made again"
        )


class LyingReplicaError(PeerError):
    """A replica stated what cannot be, so it is not the replica that it says it is, or its disc forgot."""

    def __init__(self, sender: int, *, what: str, got: int, expected: str) -> None:
        self.sender = sender
        self.what = what
        self.got = got
        self.expected = expected
        super().__init__(
            f"replica {sender}: {what} is {got}, expected {expected}; drop its connection, and if it comes "
            "again replace the replica by one with a new number"
        )


class DamagedLogError(TransportError):
    """What a disc gave back is not what was written; the replica must not go on with it."""

    def __init__(self, where: str, *, got: str, expected: str) -> None:
        self.where = where
        self.got = got
        self.expected = expected
        super().__init__(
            f"{where}: got {got}, expected {expected}; it is not used any more, and replicas with new "
            "numbers get everything from their peers"
        )


class LogWriteError(TransportError):
    """The disc did not take a record; ``full``: it may once there is room, else the process must end."""

    def __init__(self, where: str, error: OSError, *, full: bool) -> None:
        self.where = where
        self.full = full
        self.cause = error.strerror or str(error)
        remedy = (
            "nothing was acknowledged; make room, it is tried again"
            if full
            else "what the disc holds is unknown until it is read again: restart this node"
        )
        super().__init__(f"{where}: {self.cause}; {remedy}")
