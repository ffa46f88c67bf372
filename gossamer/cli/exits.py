"""Exit codes, which scripts may rely on, and how an error becomes one.

====  =======================================================================
code  meaning
====  =======================================================================
0     done
1     something that should not happen; please report it
2     the command line is wrong
3     the configuration is wrong; every mistake is listed
4     no node answers, or it broke off
5     the node refused: the request cannot work as it stands
6     not possible now, or only in part: a port is taken, a node is not ready
7     a node ended by itself
8     a promise is broken: found by an audit (``gossamer audit run --fail-on``) or by a drill
130   interrupted by Ctrl-C, where that is not the way to end it (it is with ``--watch``, ``top``, ``trace``)
====  =======================================================================
"""

from __future__ import annotations

from enum import IntEnum

from gossamer.errors import (
    ConfigError,
    PeerError,
    TransportError,
    UnavailableError,
    UsageError,
    WrongValueError,
)


class ExitCode(IntEnum):
    """See the table above."""

    DONE = 0
    BUG = 1
    USAGE = 2
    CONFIG = 3
    UNREACHABLE = 4
    REFUSED = 5
    UNAVAILABLE = 6
    NODE_ENDED = 7
    PROMISE_BROKEN = 8
    INTERRUPTED = 130


def exit_code_of(error: BaseException) -> ExitCode:
    """The branch of the error tree decides."""
    match error:
        case ConfigError():
            return ExitCode.CONFIG
        case WrongValueError():
            return ExitCode.USAGE
        case UsageError():
            return ExitCode.REFUSED
        case PeerError() | TransportError():
            return ExitCode.UNREACHABLE
        case UnavailableError():
            return ExitCode.UNAVAILABLE
        case _:
            return ExitCode.BUG
