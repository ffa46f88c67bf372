"""The tenants of a node, and the place of each client in one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from gossamer.mqtt.auth.sources import Login, Verdict
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.tenants.tenant import Tenant
from gossamer.routes import Route
from gossamer.tenants import InvalidTenantError, checked

log = structlog.get_logger(__name__)

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

    def place(self, client: Client, login: Login, verdict: Verdict) -> Refusal | None:
        """Place a client that is let in in its tenant; return the reason why that cannot be, if any.

        The word of its source counts before that of its certificate or listener.
        """
        said = login.tenant if verdict.tenant is None else verdict.tenant
        try:
            name = checked(said, f"tenant, as {verdict.by} says")
        except InvalidTenantError as error:
            log.error("tenant_invalid", by=verdict.by, error=str(error))
            return ReasonCode.NOT_AUTHORIZED, str(error)
        if not name:
            return None
        if not self.enabled():
            why = "tenants wait until every node has them: gossamer features enable tenants"
            return ReasonCode.SERVER_UNAVAILABLE, why
        tenant = client.tenant = self.of(name)
        client.cache_get, client.plan_of = tenant.cache_get, tenant.plan_of
        return None
