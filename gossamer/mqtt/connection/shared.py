"""What all connections of a node share. Whoever needs some of it takes that out when it is made."""

from collections import Counter
from dataclasses import dataclass, field

from gossamer.mqtt.auth.access import Access
from gossamer.mqtt.connection.limits import ConnectionLimits
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.publish.core import Core
from gossamer.supervisor import Runtime

__all__ = ["Shared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Core):
    """What every connection of a node works on, beside the publish path and the sessions."""

    access: Access
    limits: ConnectionLimits
    wheel: Wheel
    runtime: Runtime
    disconnected: Counter[str] = field(default_factory=Counter)
    """Clients that this side has disconnected, by reason."""
