"""Messages between a client and the node that it is attached to.

A client calls :data:`GATEWAY` with :class:`Attach` and gets the pid of its attachment, to which everything
else goes. Deliveries come as messages, at most :data:`WINDOW` beyond what the client said it has
:class:`Taken`.
"""

from __future__ import annotations

from msgspec import Struct

from gossamer.distribution import register_message
from gossamer.supervisor import Pid

GATEWAY = "gateway"
"""The registered name of the service on every node."""
WINDOW = 256
"""Messages of one subscription that may be on their way to the client, or wait there."""


class Attach(Struct, frozen=True):
    """Call: serve the process ``client``; answered with the pid of its attachment."""

    client: Pid


class Publish(Struct, frozen=True):
    """Cast, or call that is answered with True once every node that must deliver the message has it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


class Subscribe(Struct, frozen=True):
    """Call: deliver what ``filter`` matches under ``number``; answered once every live node knows.

    ``retain`` is the retain handling of MQTT 5.0; ``again`` says that the subscription was at another node.
    """

    number: int
    filter: str
    qos: int
    retain: int = 0
    again: bool = False


class Unsubscribe(Struct, frozen=True):
    """Call: no more of ``number``."""

    number: int


class Taken(Struct, frozen=True):
    """Cast: the client is done with ``count`` messages of ``number`` since it subscribed."""

    number: int
    count: int


class Deliveries(Struct, frozen=True):
    """To the client: ``[topic, payload, qos, retain]`` each.

    ``dropped`` in all so far for want of room; ``lost`` of QoS 1 and 2 just before the first of these.
    """

    source: Pid
    number: int
    messages: list[list[object]]
    dropped: int
    lost: int = 0


class Find(Struct, frozen=True):
    """Call: where does ``node`` listen? Answered with :class:`Whereabouts`, None where it is not up."""

    node: str


class Whereabouts(Struct, frozen=True):
    """Address at which a node of the cluster listens for others."""

    creation: int
    host: str
    port: int


class Gone(Struct, frozen=True):
    """To the client: ``node`` is down."""

    node: str


class Ping(Struct, frozen=True):
    """Call: are you there? Answered with True. An attachment that hears none for a while ends."""


class Refused(Struct, frozen=True):
    """Answer: it cannot be done, and why."""

    reason: str


for _type in (
    Attach,
    Publish,
    Subscribe,
    Unsubscribe,
    Taken,
    Deliveries,
    Find,
    Whereabouts,
    Gone,
    Ping,
    Refused,
):
    register_message(_type, f"gateway.{_type.__name__}")
