"""State that the parts of a node that deal with sessions share; each takes what it needs when made."""

from dataclasses import dataclass

from gossamer.clock import Clock
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.inbound import Ingest
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.mqtt.session.wills import Wills
from gossamer.routes import Router


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The publish path of a node, its sessions and what they are found by, as rooms above it take them."""

    router: Router
    fanout: Fanout
    table: SessionTable
    wills: Wills
    publishing: Publishing
    ingest: Ingest
    clock: Clock
