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


class QueuePublish(Struct, frozen=True):
    """Call: put a message into a queue; ``user``: its user properties. Answered with its offset."""

    queue: str
    key: str
    payload: bytes
    user: list[list[str]]
    expiry: float | None = None


class QueueConsume(Struct, frozen=True):
    """Call: give messages of a queue under ``number``, ``in_flight`` at once at most, as one consumer of a
    group, until :class:`Unsubscribe`. Answered True."""

    number: int
    queue: str
    group: str
    in_flight: int
    offset: str


class QueueGiven(Struct, frozen=True):
    """To the client: a message of a queue, until it is settled."""

    source: Pid
    number: int
    offset: int
    attempt: int
    key: str
    payload: bytes
    user: list[list[str]]
    note: str


class QueueSettle(Struct, frozen=True):
    """Call or cast: say what became of messages, ``[offset, attempt]`` each; ``outcome`` as in
    :class:`gossamer.queues.Outcome`. Answered True once all are settled, or with one refusal."""

    number: int
    given: list[list[int]]
    outcome: int
    reason: str = ""
    delay: float | None = None


class QueueRefused(Struct, frozen=True):
    """Answer: not done; ``why`` as in :class:`gossamer.queues.Why`, 0: for want of a quorum, as ``text``
    says. ``unknown``: it may be done all the same."""

    queue: str
    why: int
    text: str
    unknown: bool = False


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
    QueuePublish,
    QueueConsume,
    QueueGiven,
    QueueSettle,
    QueueRefused,
    Find,
    Whereabouts,
    Gone,
    Ping,
    Refused,
):
    register_message(_type, f"gateway.{_type.__name__}")
