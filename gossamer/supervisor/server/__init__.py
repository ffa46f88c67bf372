"""Behaviours: GenServer and StateMachine, and the servers that are made of them alone."""

from gossamer.supervisor.server.behaviour import Behaviour, Named
from gossamer.supervisor.server.genserver import Continue, GenServer, NoReply, Reply, Stop, reply
from gossamer.supervisor.server.loop_watch import LoopWatch
from gossamer.supervisor.server.os_process import OsProcess
from gossamer.supervisor.server.statem import (
    CallEvent,
    Enter,
    EventTimeout,
    Info,
    Internal,
    Keep,
    NamedTimeout,
    Next,
    StateMachine,
    StateTimeout,
)

__all__ = [
    "Behaviour",
    "CallEvent",
    "Continue",
    "Enter",
    "EventTimeout",
    "GenServer",
    "Info",
    "Internal",
    "Keep",
    "LoopWatch",
    "Named",
    "NamedTimeout",
    "Next",
    "NoReply",
    "OsProcess",
    "Reply",
    "StateMachine",
    "StateTimeout",
    "Stop",
    "reply",
]
