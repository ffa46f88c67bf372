"""Thespian actors under our supervisors, each in its own operating-system process.

Start a ``ThespianSystem`` and, after it, a ``ThespianActor`` for each actor; a supervisor with
``rest_for_one`` says the same. Needs the extra ``thespian``, which is imported in the host process only.
See ``host`` for what is done about Thespian's traps.
"""

from gossamer.supervisor.thespian.actor import ThespianActor
from gossamer.supervisor.thespian.messages import (
    BRIDGE,
    BRIDGE_NAME,
    Delivered,
    MessagePort,
    Publish,
    Subscribe,
    Unsubscribe,
)
from gossamer.supervisor.thespian.system import ThespianSystem
from gossamer.supervisor.thespian.wire import BadValueError

__all__ = [
    "BRIDGE",
    "BRIDGE_NAME",
    "BadValueError",
    "Delivered",
    "MessagePort",
    "Publish",
    "Subscribe",
    "ThespianActor",
    "ThespianSystem",
    "Unsubscribe",
]
