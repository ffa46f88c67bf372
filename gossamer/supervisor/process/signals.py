"""Signals to other nodes, as plain data; a router that carries them plugs in above.

A runtime passes every signal for a remote process to ``runtime.remote.route(signal)``, and gets those of
its peers through ``runtime.deliver_remote(signal)``. The router keeps the order per (sender, receiver),
for all kinds of signals alike, and encodes ``message``, ``request`` and ``value``, which are the user's plain
data.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from gossamer.supervisor.values import Pid, Reason, Ref


class SendSignal(Struct, frozen=True, tag="send"):
    """A message; a cast is one whose message is a ``Cast``."""

    node: str
    to: Pid | str
    message: object


class CallSignal(Struct, frozen=True, tag="call"):
    """A request from ``caller`` (None outside of a process), answered by a ``ReplySignal`` for ``ref``."""

    node: str
    to: Pid | str
    ref: Ref
    caller: Pid | None
    request: object


class ReplySignal(Struct, frozen=True, tag="reply"):
    """The answer to a call, or its failure (``failed``: value is the exit reason)."""

    node: str
    ref: Ref
    value: object
    failed: bool = False


class LinkSignal(Struct, frozen=True, tag="link"):
    """``source`` links itself to ``to``."""

    node: str
    to: Pid
    source: Pid


class UnlinkSignal(Struct, frozen=True, tag="unlink"):
    """``source`` removes its link to ``to``."""

    node: str
    to: Pid
    source: Pid


class ExitSignal(Struct, frozen=True, tag="exit_signal"):
    """An exit signal; ``linked``: it travels along a link and so removes it."""

    node: str
    to: Pid | str
    source: Pid
    reason: Reason
    linked: bool


class MonitorSignal(Struct, frozen=True, tag="monitor"):
    """``source`` monitors ``to`` under ``ref``."""

    node: str
    to: Pid | str
    ref: Ref
    source: Pid


class DemonitorSignal(Struct, frozen=True, tag="demonitor"):
    """The monitor ``ref`` is removed."""

    node: str
    to: Pid | str
    ref: Ref


class DownSignal(Struct, frozen=True, tag="down_signal"):
    """The process that ``to`` monitored under ``ref`` ended."""

    node: str
    to: Pid
    ref: Ref
    pid: Pid | None
    reason: Reason


Signal = (
    SendSignal
    | CallSignal
    | ReplySignal
    | LinkSignal
    | UnlinkSignal
    | ExitSignal
    | MonitorSignal
    | DemonitorSignal
    | DownSignal
)


class RemoteRouter(Protocol):
    """Router of signals to other nodes."""

    def route(self, signal: Signal) -> bool:
        """Send the signal to ``signal.node``; return False if that node is not connected."""
