"""Choice of how a packet alone in its read is taken, and how turns are flushed: compiled, or in Python.

Where messages come one at a time, as from devices, a message costs two turns in the kernel and, in Python, as
much again for what a run of them pays once. ``routes/csrc/lone.h`` takes what is plain: PUBLISH of QoS 0 or 1
to sessions that need no message of their own, PUBACK where nothing waits behind it; and it writes to sockets
whose transport has nothing to write. It decides before it changes anything, and leaves all else to the way in
Python, which does the same: without the kernel everything goes that way, and the tests hold the two against
each other. ``GOSSAMER_KERNEL`` chooses.

Rejected: a loop of our own over the sockets (transports, TLS and WebSocket would need a second one); a
compiled read loop of runs, of which a read in bulk spends little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gossamer.routes import kernel_part

_part = kernel_part("LONE_VERSION", 1)


ways: list[Callable[[Any, bytes], None]] = []
"""The way in Python, which the kernel is held against; empty where there is no other."""


def _none(_fanout: object, touched: list[Any], /) -> list[Any]:
    return touched


flush: Callable[[object, list[Any]], list[Any]] = _none if _part is None else _part.flush
"""``flush(fanout, sessions)`` writes their output to sockets that take it; returns those with any left."""


def bind(channel: type, *others: type) -> None:
    """Have lone packets taken before ``channel.data_received``, which then gets all other reads.

    The kernel finds the slots of these classes: channel, session, plan, audience, fan-out, route.
    """
    if _part is not None:
        name = "data_received"
        general = getattr(channel, name)
        setattr(channel, name, _part.bind(general, channel, *others))
        ways.append(general)


def descriptor_of(transport: asyncio.BaseTransport) -> int | None:
    """Return the file descriptor that may be written to while ``transport`` has nothing to write; None: only
    the transport may, since it encrypts, frames or simulates."""
    kind = type(transport)
    if (
        _part is None
        or kind.__module__ != "uvloop.loop"
        or kind.__name__ not in ("TCPTransport", "UnixTransport")
    ):
        return None
    return transport.get_extra_info("socket").fileno()  # type: ignore[no-any-return]
