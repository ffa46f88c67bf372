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
from gossamer.distribution.links.link import Link
from gossamer.distribution.links.manager import DIALER, NEW_PEER, LinkManager
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

    async def init(self, manager: LinkManager) -> None:
        self._manager = manager
        await self._look()

    async def handle_info(self, message: object) -> None:
        if message == NEW_PEER:
            await self._look()

    async def _look(self) -> None:
        manager = self._manager
        for name, peer in list(manager.peers.items()):
            pid = manager.links.get(name)
            # Hidden nodes are never called.
            if peer.hidden:
                continue
            if pid is None or not manager.runtime.alive(pid):
                start = partial(_start_link, manager, name)
                spec = ChildSpec(id=name, start=start, restart="transient", shutdown=1.0)
                await DynamicSupervisor.start_child(LINKS, spec)


class _Listener(GenServer):
    """Opens the node's distribution port; ends with ``listen_failed`` if it cannot be bound."""

    async def init(self, manager: LinkManager) -> None:
        trap_exit()
        self._manager = manager
        if manager.listening is not None:
            # A listener that was killed could not close its socket.
            await manager.listening.close()
        try:
            listening = await manager.transport.listen(manager.address, lambda: Inbound(manager))
        except OSError as error:
            shown = show(manager.address)
            message = (
                f"cannot listen for other nodes on {shown}: {error.strerror or error}; expected a free port "
                "of this machine, choose another distribution.port or stop the process that has it"
            )
            raise StopInit(("listen_failed", message)) from error
        manager.listening = listening
        # Port 0 asked for any; a restart must take the same port again, since peers know it.
        manager.address = (manager.address[0], listening.address[1])
        log.info("distribution_listening", address=show(manager.address))

    async def terminate(self, reason: Reason) -> None:
        listening, self._manager.listening = self._manager.listening, None
        if listening is not None:
            await listening.close()


async def _start_link(manager: LinkManager, name: str) -> Pid:
    return spawn_link(Link(manager, name).run, label=f"link to {name}")


def children(manager: LinkManager) -> list[ChildSpec]:
    """Return the child specs, for a supervisor of strategy ``rest_for_one``."""
    links = partial(DynamicSupervisor.start_link, intensity=10, period=10.0, name=LINKS, label="links")
    specs = [
        ChildSpec("transport", partial(_Transport.start_link, manager.transport, label="transport")),
        ChildSpec("links", links, type="supervisor"),
        ChildSpec("dialer", partial(_Dialer.start_link, manager, name=DIALER, label="dialer")),
    ]
    if not manager.hidden:
        specs.append(ChildSpec("listener", partial(_Listener.start_link, manager, label="listener")))
    return specs
