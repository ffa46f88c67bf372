"""The values processes exchange: identities, exit reasons and the signals that become messages.

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
"""The reason for which a process ended: a string such as ``"normal"``, a tuple, or a ``Crash``."""


class Pid(Struct, frozen=True, order=True, cache_hash=True, gc=False, tag="pid"):
    """A process: unique over nodes, and over restarts of a node by its creation."""

    node: str
    creation: int
    number: int

    def __str__(self) -> str:
        return f"<{self.node}.{self.number}>"


class Ref(Struct, frozen=True, order=True, cache_hash=True, gc=False, tag="ref"):
    """A reference that is never used twice: a monitor, a timer, a remote call."""

    node: str
    creation: int
    number: int

    def __str__(self) -> str:
        return f"#Ref<{self.node}.{self.number}>"


Destination = Pid | str | tuple[str, str]
"""The receiver of a message: a pid, a name registered on this node, or ``(name, node)``."""


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
    """An exit signal as a message, to a process that traps exits."""

    source: Pid
    reason: Reason


class Down(Struct, frozen=True, tag="down"):
    """The message of a monitor: the process ended, or was not there."""

    ref: Ref
    pid: Pid | None
    reason: Reason


class Cast(Struct, frozen=True, tag="cast"):
    """A request that wants no answer; ``handle_cast`` gets its content."""

    request: object


class Timeout(Struct, frozen=True, tag="timeout"):
    """No message came within the time that a server's last return value allowed."""


def reason_from_plain(value: object) -> Reason:
    """A reason as it was before a codec made lists of its tuples and dictionaries of its crashes."""
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
    """Return a reason on one line, for people."""
    if isinstance(reason, tuple):
        return "(" + ", ".join(describe(part) for part in reason) + ")"
    return str(reason)
