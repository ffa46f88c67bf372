"""The tenants of a node, and the place of each client in one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gossamer.mqtt.auth.sources import Login, Verdict
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.tenants.tenant import Tenant
from gossamer.routes import Route

Refusal = tuple[ReasonCode, str]


class Client(Protocol):
    """Connection of a client, as far as tenants go."""

    tenant: Tenant | None
    cache_get: Callable[[bytes], Route | None]
    plan_of: Callable[[bytes], Plan | None]


class Tenants:
    """Tenants by name, of which clients have come here. ``enabled``: all nodes of the cluster know them."""

    def __init__(
        self, publishing: Publishing, fanout: Fanout, *, enabled: Callable[[], bool] = lambda: True
    ) -> None:
        self._publishing = publishing
        self._fanout = fanout
        self.enabled = enabled
        self.known: dict[str, Tenant] = {}

    def of(self, name: str) -> Tenant:
        """Return the tenant of this name, which is not the default one."""
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = Tenant(name, self._publishing, self._fanout)
        return found

    @staticmethod
    def name_of(login: Login, verdict: Verdict) -> str:
        """Return the tenant of a client that is let in: its source's word counts before its listener's."""
        return login.tenant if verdict.tenant is None else verdict.tenant

    def place(self, client: Client, name: str) -> Refusal | None:
        """Place a client that is let in in its tenant; return the reason why that cannot be, if any."""
        if not name:
            return None
        if not self.enabled():
            return (
                ReasonCode.SERVER_UNAVAILABLE,
                "a node of the cluster knows no tenants: gossamer cluster features",
            )
        tenant = client.tenant = self.of(name)
        client.cache_get, client.plan_of = tenant.cache_get, tenant.plan_of
        return None
