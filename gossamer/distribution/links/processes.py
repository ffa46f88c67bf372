"""Processes of the distribution, in the order of their start; each depends on those before it.

::

    distribution            rest_for_one
    ├── transport           closes the connections last, after pending writes
    ├── links               one link process per peer, each restarted on its own
    ├── dialer              starts a link for every peer that has none
    └── listener            accepts the calls of peers, and closes what it accepted; absent if this node is
                            hidden
"""

from __future__ import annotations

from functools import partial

import structlog

from gossamer.distribution.links.channels import Inbound
from gossamer.distribution.links.hub import DIALER, NEW_PEER, Hub
from gossamer.distribution.links.link import Link
from gossamer.distribution.transport.transport import LinkTransport, show
from gossamer.supervisor import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Pid,
    Reason,
    StopInit,
    spawn_link,
    trap_exit,
)

log = structlog.get_logger(__name__)

LINKS = "distribution_links"


class _Transport(GenServer):
    """Owns the transport until all its users have stopped."""

    async def init(self, transport: LinkTransport) -> None:
        trap_exit()
        self._transport = transport

    async def terminate(self, reason: Reason) -> None:
        await self._transport.close()


class _Dialer(GenServer):
    """Starts missing links; stateless."""

    async def init(self, hub: Hub) -> None:
        self._hub = hub
        await self._look()

    async def handle_info(self, message: object) -> None:
        if message == NEW_PEER:
            await self._look()

    async def _look(self) -> None:
        hub = self._hub
        for name, peer in list(hub.peers.items()):
            pid = hub.links.get(name)
            # Hidden nodes are never called.
            if peer.hidden:
                continue
            if pid is None or not hub.runtime.alive(pid):
                start = partial(_start_link, hub, name)
                spec = ChildSpec(id=name, start=start, restart="transient", shutdown=1.0)
                await DynamicSupervisor.start_child(LINKS, spec)


class _Listener(GenServer):
    """Opens the node's distribution port; ends with ``listen_failed`` if it cannot be bound."""

    async def init(self, hub: Hub) -> None:
        trap_exit()
        self._hub = hub
        if hub.listening is not None:
            # A listener that was killed could not close its socket.
            await hub.listening.close()
        try:
            listening = await hub.transport.listen(hub.address, lambda: Inbound(hub))
        except OSError as error:
            shown = show(hub.address)
            message = (
                f"cannot listen for other nodes on {shown}: {error.strerror or error}; expected a free port "
                "of this machine, choose another distribution.port or stop the process that has it"
            )
            raise StopInit(("listen_failed", message)) from error
        hub.listening = listening
        # Port 0 asked for any; a restart must take the same port again, since peers know it.
        hub.address = (hub.address[0], listening.address[1])
        log.info("distribution_listening", address=show(hub.address))

    async def terminate(self, reason: Reason) -> None:
        listening, self._hub.listening = self._hub.listening, None
        if listening is not None:
            await listening.close()


async def _start_link(hub: Hub, name: str) -> Pid:
    return spawn_link(Link(hub, name).run, label=f"link to {name}")


def children(hub: Hub) -> list[ChildSpec]:
    """Return the child specs, for a supervisor of strategy ``rest_for_one``."""
    links = partial(DynamicSupervisor.start_link, intensity=10, period=10.0, name=LINKS, label="links")
    specs = [
        ChildSpec("transport", partial(_Transport.start_link, hub.transport, label="transport")),
        ChildSpec("links", links, type="supervisor"),
        ChildSpec("dialer", partial(_Dialer.start_link, hub, name=DIALER, label="dialer")),
    ]
    if not hub.hidden:
        specs.append(ChildSpec("listener", partial(_Listener.start_link, hub, label="listener")))
    return specs
