"""Thespian actors under our supervisors, each in its own operating-system process.

Start a ``ThespianSystem`` and, after it, a ``ThespianActor`` for each actor, under a supervisor with
``rest_for_one``. Needs the extra ``thespian``, which is imported only in the host process.
See ``host`` for the changes to Thespian's defaults.
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
