"""What all connections of a node share. Whoever needs some of it takes that out when it is made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gossamer.clock import Clock
from gossamer.mqtt.auth.access import Access
from gossamer.mqtt.connection.limits import ConnectionLimits
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.routes import Router
from gossamer.supervisor import Runtime

__all__ = ["Shared"]


@dataclass(frozen=True, slots=True)
class Shared:
    """See the module."""

    router: Router
    hub: Fanout
    publishing: Publishing
    table: SessionTable
    access: Access
    limits: ConnectionLimits
    wheel: Wheel
    runtime: Runtime
    clock: Clock
    disconnected: Counter[str] = field(default_factory=Counter)
    """Clients that this side has disconnected, by reason."""
