"""Processes: the table of a node, signals, calls, ports, and what code inside a process may do."""

from gossamer.supervisor.process.calls import Caller, RemoteCaller
from gossamer.supervisor.process.entry import Entry, Sent, Tracer, current
from gossamer.supervisor.process.functions import (
    TimerRef,
    call,
    cancel_timer,
    cast,
    demonitor,
    exit,  # noqa: A004
    link,
    monitor,
    receive,
    register,
    self_pid,
    send,
    send_after,
    send_wait,
    spawn,
    spawn_link,
    trap_exit,
    unlink,
    whereis,
)
from gossamer.supervisor.process.port import Port, guarded
from gossamer.supervisor.process.process import BURST, Process, reason_of, where_is
from gossamer.supervisor.process.registry import Registry
from gossamer.supervisor.process.runtime import Initialised, Runtime
from gossamer.supervisor.process.signals import RemoteRouter
from gossamer.supervisor.process.tree import Folded, ProcessNode, locate

__all__ = [
    "BURST",
    "Caller",
    "Entry",
    "Folded",
    "Initialised",
    "Port",
    "Process",
    "ProcessNode",
    "Registry",
    "RemoteCaller",
    "RemoteRouter",
    "Runtime",
    "Sent",
    "TimerRef",
    "Tracer",
    "call",
    "cancel_timer",
    "cast",
    "current",
    "demonitor",
    "exit",
    "guarded",
    "link",
    "locate",
    "monitor",
    "reason_of",
    "receive",
    "register",
    "self_pid",
    "send",
    "send_after",
    "send_wait",
    "spawn",
    "spawn_link",
    "trap_exit",
    "unlink",
    "where_is",
    "whereis",
]
