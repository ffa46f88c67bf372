"""gossamer: a clustered MQTT message router, built like an Erlang/OTP release.

The front door for Python developers. Names are imported when they are first used, so that the command, which
needs few of them, starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gossamer.client import BlockingClient, Client
    from gossamer.gateway import Delivered, Mqtt
    from gossamer.node import Node
    from gossamer.supervisor import (
        Backoff,
        ChildSpec,
        DynamicSupervisor,
        GenServer,
        NoReply,
        Reply,
        Runtime,
        Stop,
        Supervisor,
        call,
        cast,
        link,
        monitor,
        receive,
        reply,
        send,
        spawn,
    )

__all__ = [
    "Backoff",
    "BlockingClient",
    "ChildSpec",
    "Client",
    "Delivered",
    "DynamicSupervisor",
    "GenServer",
    "Mqtt",
    "NoReply",
    "Node",
    "Reply",
    "Runtime",
    "Stop",
    "Supervisor",
    "__version__",
    "call",
    "cast",
    "link",
    "monitor",
    "receive",
    "reply",
    "send",
    "spawn",
]

__version__ = "0.1.0"

_HOMES = {
    "BlockingClient": "gossamer.client",
    "Client": "gossamer.client",
    "Delivered": "gossamer.gateway",
    "Mqtt": "gossamer.gateway",
    "Node": "gossamer.node",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gossamer' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "gossamer.supervisor")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
