"""Errors of starting, naming and calling processes.

::

    UsageError
    ├── NotInProcess        a function of the running process was called outside of one
    ├── BadDestination      not a pid, name or (name, node)
    ├── NameTaken           the name belongs to another live process
    ├── NoSuchProcess       no live process matches
    ├── CallingSelf         a process called itself and would wait for ever
    ├── BadReturn           a callback returned a value that its behaviour does not accept
    ├── NotAsync            a callback or body cannot be awaited: `async` is missing, or it is a class
    ├── NoSuchCallback      a server has no callback for a request
    ├── BadChildSpec        an invalid child specification or supervisor flag
    ├── AlreadyStarted      the child with that id is already running
    ├── AlreadyPresent      a child with that id is specified, but is not running
    ├── ChildNotFound       the supervisor has no such child
    ├── ChildRunning        the child must be terminated first
    └── ChildRestarting     the child is being restarted
    UnavailableError
    ├── CallFailed          the called process ended, was not there, or lost its connection
    │   └── CallTimeout     it did not answer in time
    ├── StartFailed         a process ended before its ``init`` was done
    ├── MailboxFull         the receiver's mailbox is at its bound
    ├── MaxChildren         a dynamic supervisor is at its limit of children
    └── TooManyTraces       a node is at its limit of traced processes

Outside the tree, because they are control flow and no errors: ``ExitProcess`` (ends the running process
with a reason, as ``exit/1``), ``Ignore`` and ``StopInit`` (an ``init`` that declines to run).
"""

# ruff: noqa: N818  (OTP says noproc and badarg; the names say what happened, not that it is an error)
from __future__ import annotations

from collections.abc import Sequence

from gossamer.errors import UnavailableError, UsageError
from gossamer.supervisor.values import NOCONNECTION, NOPROC, TIMEOUT, Pid, Reason, describe


class ExitProcess(BaseException):
    """End the running process with ``reason``, as Erlang's ``exit/1``."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(describe(reason))


class Ignore(Exception):
    """Raised by ``init``: do not run now; a supervisor keeps its specification."""


class StopInit(Exception):
    """Raised by ``init``: starting failed for ``reason``."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(describe(reason))


class NotInProcess(UsageError):
    """A function of the running process was called outside of one."""

    def __init__(self, function: str) -> None:
        self.function = function
        super().__init__(
            f"{function}() needs a running process and none runs here; "
            "call it from a spawned process, or use the method of the Runtime"
        )


class BadDestination(UsageError):
    """A destination is neither a pid, nor a name, nor (name, node)."""

    def __init__(self, destination: object) -> None:
        self.destination = destination
        super().__init__(
            "expected a Pid, a registered name or (name, node), "
            f"got {type(destination).__name__} {destination!r}"
        )


class NameTaken(UsageError):
    """The name belongs to another live process."""

    def __init__(self, name: str, holder: Pid) -> None:
        self.name = name
        self.holder = holder
        super().__init__(f"the name {name!r} is held by {holder}; choose another, or stop that process first")


class NoSuchProcess(UsageError):
    """No live process has that pid or name."""

    def __init__(self, destination: object, node: str, *, elsewhere: str | None = None) -> None:
        self.destination = destination
        self.node = node
        self.elsewhere = elsewhere
        what = f"no process {destination!s} on {node}: "
        if elsewhere is None:
            what += (
                "it may have ended, and a restarted one has a new pid; `gossamer ps` lists those that live"
            )
        else:
            what += f"its node is {elsewhere}; ask that one, with `--node {elsewhere}`"
        super().__init__(what)


class CallingSelf(UsageError):
    """A process called itself, which would never return."""

    def __init__(self, pid: Pid, label: str) -> None:
        self.pid = pid
        super().__init__(
            f"{label} {pid} calls itself and would wait for ever; call the method directly, or cast and go on"
        )


class BadReturn(UsageError):
    """A callback returned something that its behaviour does not accept."""

    def __init__(self, where: str, got: object, expected: str) -> None:
        self.where = where
        self.got = type(got).__name__
        self.expected = expected
        super().__init__(f"{where} returned {self.got}, expected {expected}")


class NotAsync(UsageError):
    """A callback, a body or a start function returned something that cannot be awaited."""

    def __init__(self, where: str, got: object, advice: str) -> None:
        self.where = where
        self.got = type(got).__name__
        super().__init__(f"{where} gave back {self.got}, which cannot be awaited; {advice}")

    @classmethod
    def of(cls, function: object, got: object) -> NotAsync:
        """Build the error for a function that was called and should have been ``async``."""
        function = getattr(function, "func", function)
        if isinstance(function, type) and hasattr(function, "start_link"):
            name = function.__qualname__
            return cls(name, got, f"it is an actor class: pass `{name}.start_link`")
        name = str(getattr(function, "__qualname__", type(function).__qualname__))
        short = name.rpartition(".")[2]
        advice = f"write `async def {short}`" if short.isidentifier() else "give an async function"
        return cls(name, got, advice)


class NoSuchCallback(UsageError):
    """A server got a request for which it has no callback."""

    def __init__(self, server: str, callback: str, message: object) -> None:
        self.server = server
        self.callback = callback
        self.got = type(message).__name__
        super().__init__(
            f"{server} got a {self.got} and has no {callback}(); define it, or send it elsewhere"
        )


class BadChildSpec(UsageError):
    """A child specification or a supervisor flag is invalid; nothing was started."""

    def __init__(self, where: str, key: str, got: object, expected: str) -> None:
        self.where = where
        self.key = key
        self.expected = expected
        super().__init__(f"{where}: {key} is {got!r}, expected {expected}")


class AlreadyStarted(UsageError):
    """The child with that id is already running."""

    def __init__(self, child: str, pid: Pid | str) -> None:
        self.child = child
        self.pid = pid
        super().__init__(
            f"child {child!r} runs already as {pid}; terminate_child() it first, or use another id"
        )


class AlreadyPresent(UsageError):
    """A child with that id is specified, but is not running."""

    def __init__(self, child: str) -> None:
        self.child = child
        super().__init__(
            f"child {child!r} is specified and not running; restart_child() or delete_child() it"
        )


class ChildNotFound(UsageError):
    """The supervisor has no such child."""

    def __init__(self, child: object, known: Sequence[str] = ()) -> None:
        self.child = child
        names = ", ".join(repr(name) for name in known) or "none"
        super().__init__(f"no child {child!s}; this supervisor has {names}")


class ChildRunning(UsageError):
    """The child must be terminated first."""

    def __init__(self, child: str, pid: Pid | None) -> None:
        self.child = child
        self.pid = pid
        super().__init__(f"child {child!r} runs as {pid}; terminate_child() it first")


class ChildRestarting(UsageError):
    """The child is being restarted."""

    def __init__(self, child: str) -> None:
        self.child = child
        super().__init__(f"child {child!r} is being restarted; terminate_child() ends the attempts")


ADVICE = {
    NOPROC: "; nobody is there: it has ended, or its node has started again since; look it up by its name",
    NOCONNECTION: "; its node is not connected; see `gossamer nodes`",
    TIMEOUT: "; see what keeps it with `gossamer ps` and `gossamer trace`, or allow more time",
}
"""Advice for reasons that do not explain themselves."""


class CallFailed(UnavailableError):
    """The called process ended, was not there, or lost its connection.

    Uncaught, it ends the caller with ``(reason, ("call", destination))``, as in OTP.
    """

    def __init__(self, destination: object, reason: Reason, hint: str = "") -> None:
        self.destination = destination
        self.reason = reason
        shown = destination if isinstance(destination, Pid) else repr(destination)
        advice = ADVICE.get(reason, "") if isinstance(reason, str) else ""
        super().__init__(f"call to {shown} failed: {describe(reason)}{hint}{advice}")


class CallTimeout(CallFailed):
    """The called process did not answer in time; its late answer will be dropped."""


class StartFailed(UnavailableError):
    """A process ended before its ``init`` returned."""

    def __init__(self, label: str, reason: Reason) -> None:
        self.label = label
        self.reason = reason
        super().__init__(f"{label} did not start: {describe(reason)}")


class MailboxFull(UnavailableError):
    """The mailbox of the receiver is full."""

    def __init__(self, pid: Pid, label: str, limit: int) -> None:
        self.pid = pid
        self.limit = limit
        super().__init__(
            f"the mailbox of {label} {pid} holds {limit} messages, its bound; "
            "wait with send_wait(), or raise max_mailbox"
        )


class MaxChildren(UnavailableError):
    """A dynamic supervisor is at its limit of children."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"this supervisor holds {limit} children, its max_children; let one end first")


class TooManyTraces(UnavailableError):
    """A node is at its limit of traced processes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"{limit} processes of this node are traced already; end one of the traces first")
