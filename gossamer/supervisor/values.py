"""Values that processes exchange: identities, exit reasons and signals as messages.

Rules: 1. Everything here is frozen plain data that msgpack can carry to another node.  2. A reason never
holds a live exception or traceback, which would pin frames and cannot travel; :class:`Crash` carries
text. 3. An ordinary reason is a string (``"normal"``, ``"shutdown"``, ``"killed"``, ``"noproc"``,
``"noconnection"``, ``"timeout"``) or a tuple that starts with one, ``("shutdown", detail)``.

``msgspec.Struct`` rather than dataclasses: creating, hashing and comparing happen in C, and a pid is a
dictionary key on every send.
"""

from __future__ import annotations

import traceback

from msgspec import Struct

NORMAL = "normal"
SHUTDOWN = "shutdown"
KILL = "kill"
KILLED = "killed"
NOPROC = "noproc"
NOCONNECTION = "noconnection"
TIMEOUT = "timeout"

Reason = object
"""Exit reason of a process: a string such as ``"normal"``, a tuple, or a ``Crash``."""


class Pid(Struct, frozen=True, order=True, cache_hash=True, gc=False, tag="pid"):
    """Process id: unique over nodes, and over restarts of a node by its creation."""

    node: str
    creation: int
    number: int

    def __str__(self) -> str:
        return f"<{self.node}.{self.number}>"


class Ref(Struct, frozen=True, order=True, cache_hash=True, gc=False, tag="ref"):
    """Reference that is never used twice: of a monitor, a timer, a remote call."""

    node: str
    creation: int
    number: int

    def __str__(self) -> str:
        return f"#Ref<{self.node}.{self.number}>"


Destination = Pid | str | tuple[str, str]
"""Receiver of a message: a pid, a name registered on this node, or ``(name, node)``."""


class Crash(Struct, frozen=True, tag="crash"):
    """An exception that ended a process, as text."""

    error: str
    message: str
    traceback: str = ""

    @classmethod
    def of(cls, exception: BaseException) -> Crash:
        """Build from an exception: its class, message and formatted traceback."""
        # SystemExit(2) and friends format as their argument; a bare class gives an empty message.
        return cls(
            error=type(exception).__qualname__,
            message=str(exception),
            traceback="".join(traceback.format_exception(exception)),
        )

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error


class Exit(Struct, frozen=True, tag="exit"):
    """Exit signal as a message, to a process that traps exits."""

    source: Pid
    reason: Reason


class Down(Struct, frozen=True, tag="down"):
    """Message of a monitor: the process ended, or did not exist."""

    ref: Ref
    pid: Pid | None
    reason: Reason


class Cast(Struct, frozen=True, tag="cast"):
    """Request without an answer; ``handle_cast`` gets its content."""

    request: object


class Timeout(Struct, frozen=True, tag="timeout"):
    """Message that no other came within the timeout of the server's last return value."""


def reason_from_plain(value: object) -> Reason:
    """Restore a reason after a codec turned its tuples into lists and its crashes into dictionaries."""
    if isinstance(value, list | tuple):
        return tuple(reason_from_plain(part) for part in value)
    if isinstance(value, dict) and value.get("type") == "crash":
        return Crash(
            str(value.get("error", "")), str(value.get("message", "")), str(value.get("traceback", ""))
        )
    return value


def is_clean(reason: Reason) -> bool:
    """Return True for the reasons of an orderly end: normal, shutdown and (shutdown, detail)."""
    if isinstance(reason, str):
        return reason in (NORMAL, SHUTDOWN)
    return isinstance(reason, tuple) and len(reason) == 2 and reason[0] == SHUTDOWN


def describe(reason: Reason) -> str:
    """Format a reason on one line."""
    if isinstance(reason, tuple):
        return "(" + ", ".join(describe(part) for part in reason) + ")"
    return str(reason)
