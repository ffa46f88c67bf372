"""State that the parts of a broker share."""

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
    """Publish path, router and sessions of a node, from which each part takes what it needs when made."""

    router: Router
    fanout: Fanout
    table: SessionTable
    wills: Wills
    publishing: Publishing
    ingest: Ingest
    clock: Clock
