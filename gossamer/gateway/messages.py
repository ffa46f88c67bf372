"""Messages between a client and the node that it is attached to.

A client calls :data:`GATEWAY` with :class:`Attach` and gets the pid of its attachment, to which it sends all
other requests. Deliveries come as messages, at most :data:`WINDOW` beyond the last that it has
:class:`Taken`.
"""

from __future__ import annotations

from msgspec import Struct

from gossamer.distribution import register_message
from gossamer.supervisor import Pid

GATEWAY = "gateway"
"""Registered name of the service on every node."""
WINDOW = 256
"""Messages of one subscription that may be in flight to the client, or wait there."""


class Attach(Struct, frozen=True):
    """Call: serve the process ``client``. Answered with the pid of its attachment."""

    client: Pid


class Publish(Struct, frozen=True):
    """Cast, or call that is answered True once every node that must deliver the message has it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


class Subscribe(Struct, frozen=True):
    """Call: deliver messages that match ``filter`` under ``number``. Answered True once every live node has
    the route. ``retain`` is the retain handling of MQTT 5.0; ``again``: the client had it at another node.
    """

    number: int
    filter: str
    qos: int
    retain: int = 0
    again: bool = False


class Unsubscribe(Struct, frozen=True):
    """Call: end the subscription ``number``. Answered True."""

    number: int


class Taken(Struct, frozen=True):
    """Cast: the client has processed ``count`` messages of ``number`` in all."""

    number: int
    count: int


class Deliveries(Struct, frozen=True):
    """To the client: ``[topic, payload, qos, retain]`` each.

    ``dropped``: number without room, in all; ``lost``: of these, of QoS 1 and 2 just before the first here.
    """

    source: Pid
    number: int
    messages: list[list[object]]
    dropped: int
    lost: int = 0


class Find(Struct, frozen=True):
    """Call: return the address of ``node``. Answered with :class:`Whereabouts`; None: it is not up."""

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
    """Call: keep alive. Answered True. An attachment without requests for a while ends."""


class Refused(Struct, frozen=True):
    """Answer: the request is refused, and why."""

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
