"""The API's view of tenants."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from gossamer.api import ListOrder, Walked
from gossamer.api.model.node import TenantInfo, TenantRequest
from gossamer.mqtt import Tenant
from gossamer.node.parts import NodeParts


class TenantsView:
    """The part of :class:`gossamer.api.NodeView` that is about tenants."""

    _node: NodeParts
    name: str

    def tenants(self, only: str | None = None) -> Iterator[Walked[TenantInfo]]:
        """Return the tenants that this node knows, or one of them."""
        order = ListOrder()
        for tenant in self._node.broker.tenants:
            if only in (None, tenant.name):
                yield order.key((tenant.name, self.name), tenant.name), partial(self._tenant, tenant)

    def _tenant(self, tenant: Tenant) -> TenantInfo:
        limits = msgspec.structs.asdict(tenant.limits)
        return TenantInfo(
            tenant=tenant.name,
            node=self.name,
            banned=limits.pop("banned"),
            limits=limits,
            connections=len(tenant.clients),
            messages=tenant.received,
            retained=self._node.broker.retained.count(tenant.name),
        )

    async def change_tenant(self, name: str, order: TenantRequest) -> None:
        """Change limits of a tenant, or ban it.

        Raises:
            UsageError: the tenant or a limit cannot be what it is called, or its value not that.
            UnavailableError: it cannot be written now.
        """
        tenants = self._node.broker.tenants
        await self._node.runtime.run(partial(tenants.set, name, order.limits, banned=order.banned))
