"""A look into a running node: system messages, traces, log fields and the garbage collector."""

from gossamer.supervisor.inspect.collector import PAUSES, tune_collector
from gossamer.supervisor.inspect.log_process import log_process
from gossamer.supervisor.inspect.system import (
    Statistics,
    SystemRequest,
    attend,
    get_state,
    replace_state,
    resume,
    statistics,
    suspend,
    trace,
)
from gossamer.supervisor.inspect.tracing import TraceLine, follow

__all__ = [
    "PAUSES",
    "Statistics",
    "SystemRequest",
    "TraceLine",
    "attend",
    "follow",
    "get_state",
    "log_process",
    "replace_state",
    "resume",
    "statistics",
    "suspend",
    "trace",
    "tune_collector",
]
