"""The tenants of a node, the place of each client in one of them, and their limits, which the cluster shares.

Rules: 1. Limits are rows of a shared table: what an operator sets at one node holds at all, at once, and
after a restart; of two sides of a split the later word counts.  2. A new limit is for what comes after it;
who is above it already stays. A ban ends connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec
import structlog

from gossamer.errors import UnavailableError
from gossamer.mnesia_like import SharedTable
from gossamer.mqtt.auth.sources import Login, Verdict
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.publish.retained import Retained
from gossamer.mqtt.tenants.limits import TenantLimits, reached, read_limits
from gossamer.mqtt.tenants.tenant import Tenant
from gossamer.routes import Route
from gossamer.tenants import DEFAULT, InvalidTenantError, checked, limit_of

log = structlog.get_logger(__name__)

TABLE = "tenants"
Refusal = tuple[ReasonCode, str]


class Client(Protocol):
    """Connection of a client, as far as tenants go."""

    tenant: Tenant | None
    cache_get: Callable[[bytes], Route | None]
    plan_of: Callable[[bytes], Plan | None]
    max_packet: int

    def disconnect(self, reason: ReasonCode, /) -> None: ...


class Tenants:
    """Tenants by name: those with limits, and those whose clients have come here.

    ``enabled``: all nodes of the cluster know them.
    """

    def __init__(
        self,
        publishing: Publishing,
        fanout: Fanout,
        retained: Retained,
        *,
        enabled: Callable[[], bool] = lambda: True,
    ) -> None:
        self._publishing = publishing
        self._fanout = fanout
        self._retained = retained
        self._table: SharedTable | None = None
        self.enabled = enabled
        self.known: dict[str, Tenant] = {}

    def of(self, name: str) -> Tenant:
        """Return the tenant of this name, which is not the default one."""
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = Tenant(name, self._publishing, self._fanout, self._retained)
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
        tenant = self.of(name)
        limits = tenant.limits
        if limits.banned:
            return ReasonCode.BANNED, f"tenant {name} is banned"
        if limits.max_connections is not None and len(tenant.clients) >= limits.max_connections:
            return ReasonCode.QUOTA_EXCEEDED, reached(name, "max_connections", limits.max_connections)
        tenant.clients.add(client)
        client.tenant = tenant
        client.cache_get, client.plan_of = tenant.cache_get, tenant.plan_of
        if limits.max_packet_size is not None:
            client.max_packet = min(client.max_packet, limits.max_packet_size)
        return None

    # Limits.

    def attach(self, table: SharedTable) -> None:
        """Keep limits in ``table`` from now on, and follow it."""
        self._table = table
        table.subscribe(lambda _events: self._read())
        self._read()

    def _read(self) -> None:
        rows = {} if self._table is None else self._table.rows()
        for name in {*rows, *self.known}:
            if isinstance(name, str):
                self._limit(self.of(name), read_limits(rows.get(name)))

    def _limit(self, tenant: Tenant, limits: TenantLimits) -> None:
        if limits == tenant.limits:
            return
        tenant.limit(limits)
        log.info("tenant_limits", tenant=tenant.name, **msgspec.structs.asdict(limits))
        if limits.banned:
            for client in list(tenant.clients):
                client.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)

    async def set(self, name: str, changes: Mapping[str, object], *, banned: bool | None = None) -> Tenant:
        """Change limits of a tenant, on all nodes; back once this one has them on disc.

        Raises:
            InvalidTenantError: ``name`` is none of a tenant, or that of the default one.
            WrongValueError: a limit is unknown, or its value none.
            UnavailableError: the table takes no rows now.
        """
        if not (named := checked(name, "tenant")):
            where = "tenant with limits (the default one has those of mqtt.limits)"
            raise InvalidTenantError(name or DEFAULT, where)
        row = msgspec.structs.asdict(self.of(named).limits)
        row |= {key: limit_of(key, value) for key, value in changes.items()}
        if banned is not None:
            row["banned"] = banned
        if self._table is None:
            raise UnavailableError("tenants: this node has no table for them yet; wait until it is ready")
        self._table.write(named, row)
        self._read()
        await self._table.durable()
        return self.of(named)

    def __iter__(self) -> Iterator[Tenant]:
        return iter(sorted(self.known.values(), key=lambda tenant: tenant.name))
