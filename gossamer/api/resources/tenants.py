"""``/tenants``: who shares the cluster, what each has at which node, its limits, and who is banned."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from gossamer.api.model.base import Page, Problem
from gossamer.api.model.cluster import Done
from gossamer.api.model.node import TenantInfo, TenantRequest
from gossamer.api.resources.listing import STREAMED, ListingQuery, Scope
from gossamer.api.view import NodeView

Name = Annotated[str, Path(max_length=100, description="A tenant, of which nothing need be known yet.")]
Only = Annotated[str | None, Query(max_length=100, description="Only this tenant.")]


def tenants_router(view: NodeView) -> APIRouter:
    """``/tenants``."""
    router = APIRouter(prefix="/tenants", tags=["tenants"])

    @router.get("", response_model=Page[TenantInfo], responses=STREAMED)
    async def tenants(listing: ListingQuery, tenant: Only = None, scope: Scope = "cluster") -> Response:
        """The tenants that have limits, or whose clients have come, at each node; without the default one."""
        return await listing.answer(
            view, own=lambda: view.tenants(tenant), fields=("tenant", "node"), scope=scope
        )

    @router.post("/{tenant}", responses={404: {"model": Problem}})
    async def change(tenant: Name, order: TenantRequest) -> Done:
        """Change the limits of a tenant, or ban it, at all nodes at once and for good."""
        await view.change_tenant(tenant, order)
        return Done(done=f"tenant {tenant} changed", members=())

    return router
