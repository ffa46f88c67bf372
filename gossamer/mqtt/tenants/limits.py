"""Limits of one tenant, as they are kept and enforced; :mod:`gossamer.tenants` says which may be set. Pure.

Each counts at one node, but for retained messages, which every node has: a tenant whose clients are spread
over three nodes may have three times as many connections as ``max_connections`` says.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class TenantLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a tenant; None: those of the node alone. ``banned``: none of its clients is let in."""

    max_connections: int | None = None
    """Connections at one node; the next is refused (0x97)."""
    max_publish_rate: int | None = None
    """Messages a second that its clients publish at one node; above it they are read from more slowly."""
    max_subscriptions: int | None = None
    """Subscriptions of one session; the next is refused (0x97)."""
    max_retained: int | None = None
    """Topics with a retained message, in the cluster; a PUBLISH that makes one more is refused (0x97)."""
    max_packet_size: int | None = None
    """Bytes of a packet of a client; a larger one ends its connection (0x95)."""
    banned: bool = False


def read_limits(row: object) -> TenantLimits:
    """Return the limits in a row, without what this release does not know."""
    if not isinstance(row, Mapping):
        return TenantLimits()
    known = {key: value for key, value in row.items() if key in TenantLimits.__struct_fields__}
    try:
        return msgspec.convert(known, TenantLimits)
    except msgspec.ValidationError:
        return TenantLimits()


def reached(tenant: str, key: str, limit: int) -> str:
    """Return the reason of a refusal."""
    return f"tenant {tenant} has reached its limit {key}: {limit}"
