"""What a signal of another node does here, and what the loss of a node means.

Rules: 1. A signal for a process that is not there is answered as its kind demands: noproc for a call, a
link and a monitor, silence for a message.  2. A lost node ends every tie and call across it with
``noconnection``; the processes there may well live on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.supervisor.process.calls import RemoteCaller
from gossamer.supervisor.process.entry import Entry
from gossamer.supervisor.process.signals import (
    CallSignal,
    DemonitorSignal,
    DownSignal,
    ExitSignal,
    LinkSignal,
    MonitorSignal,
    ReplySignal,
    SendSignal,
    Signal,
    UnlinkSignal,
)
from gossamer.supervisor.values import NOCONNECTION, NOPROC, Down, Pid, reason_from_plain

if TYPE_CHECKING:
    from gossamer.supervisor.process.runtime import Runtime

__all__ = ["deliver", "lose"]


def deliver(runtime: Runtime, signal: Signal) -> None:
    """Carry out one signal of a peer."""
    if isinstance(signal, ReplySignal):
        caller = runtime.remote_calls.get(signal.ref)
        if caller is not None:
            if signal.failed:
                caller.fail(reason_from_plain(signal.value))
            else:
                caller.answer(signal.value)
        return
    entry = runtime.table.get(signal.to) if isinstance(signal.to, Pid) else runtime.names.get(signal.to)
    if isinstance(signal, SendSignal):
        if entry is not None:
            entry.deliver(signal.message)
    elif isinstance(signal, CallSignal):
        _called(runtime, entry, signal)
    elif isinstance(signal, LinkSignal):
        if entry is not None:
            entry.tie(signal.source)
        else:
            runtime.route(ExitSignal(signal.source.node, signal.source, signal.to, NOPROC, linked=True))
    elif isinstance(signal, UnlinkSignal):
        if entry is not None:
            entry.untie(signal.source)
    elif isinstance(signal, ExitSignal):
        # A link's signal counts only while the link is there: it may have crossed an unlink.
        if entry is not None and (not signal.linked or entry.untie(signal.source)):
            entry.exit_signal(signal.source, reason_from_plain(signal.reason), linked=signal.linked)
    elif isinstance(signal, MonitorSignal):
        if entry is not None:
            entry.watch(signal.ref, signal.source)
            runtime.note_remote(signal.source.node, entry.pid)
        else:
            gone = signal.to if isinstance(signal.to, Pid) else None
            runtime.route(DownSignal(signal.source.node, signal.source, signal.ref, gone, NOPROC))
    elif isinstance(signal, DemonitorSignal):
        _unwatched(runtime, entry, signal)
    elif (
        entry is not None and entry.watching is not None and entry.watching.pop(signal.ref, None) is not None
    ):
        entry.deliver_signal(Down(signal.ref, signal.pid, reason_from_plain(signal.reason)))


def _called(runtime: Runtime, entry: Entry | None, signal: CallSignal) -> None:
    if entry is None:
        runtime.route(ReplySignal(signal.ref.node, signal.ref, NOPROC, failed=True))
        return
    caller = RemoteCaller(signal.caller, signal.request, signal.ref, entry)
    if not entry.deliver(caller):
        caller.fail("mailbox_full")


def _unwatched(runtime: Runtime, entry: Entry | None, signal: DemonitorSignal) -> None:
    if entry is not None and entry.watchers is not None and entry.watchers.pop(signal.ref, None) is not None:
        return
    # The monitor was made by name, and the name has moved on since.
    for pid in runtime.remote_ties.get(signal.ref.node, ()):
        other = runtime.table.get(pid)
        if (
            other is not None
            and other.watchers is not None
            and other.watchers.pop(signal.ref, None) is not None
        ):
            return


def lose(runtime: Runtime, node: str) -> None:
    """End all ties and calls across the connection to ``node``."""
    for caller in [c for ref, c in runtime.remote_calls.items() if c.node() == node]:
        caller.fail(NOCONNECTION)
    for pid in runtime.remote_ties.pop(node, {}):
        entry = runtime.table.get(pid)
        if entry is None:
            continue
        for ref, watcher in list((entry.watchers or {}).items()):
            if isinstance(watcher, Pid) and watcher.node == node and entry.watchers is not None:
                del entry.watchers[ref]
        for ref, target in list((entry.watching or {}).items()):
            address = runtime.remote_address(target)
            if address is not None and address[0] == node and entry.watching is not None:
                del entry.watching[ref]
                gone = address[1] if isinstance(address[1], Pid) else None
                entry.deliver_signal(Down(ref, gone, NOCONNECTION))
        for other in [other for other in entry.links or () if other.node == node]:
            if entry.untie(other):
                entry.exit_signal(other, NOCONNECTION, linked=True)
