"""gossamer: a clustered MQTT message router, built like an Erlang/OTP release.

The front door for Python developers. Names are imported when they are first used, so that the command, which
needs few of them, starts fast.
"""

from typing import TYPE_CHECKING

from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.client import (
        Batch,
        BlockingClient,
        Client,
        ClientQueue,
        Delivery,
        QueueConsumer,
        RejectJob,
        RetryJob,
    )
    from gossamer.gateway import Delivered, Mqtt
    from gossamer.node import Node
    from gossamer.queues import PersistentActor
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
    "Batch",
    "BlockingClient",
    "ChildSpec",
    "Client",
    "ClientQueue",
    "Delivered",
    "Delivery",
    "DynamicSupervisor",
    "GenServer",
    "Mqtt",
    "NoReply",
    "Node",
    "PersistentActor",
    "QueueConsumer",
    "RejectJob",
    "Reply",
    "RetryJob",
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

__getattr__, __dir__ = lazy(__name__)
