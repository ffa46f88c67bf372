"""The listener process: takes calls of peers, and holds their channels as ports linked to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution.links.channels import Inbound
from gossamer.distribution.transport.transport import show
from gossamer.supervisor import Exit, GenServer, Port, StopInit, guarded, trap_exit

if TYPE_CHECKING:
    from gossamer.distribution.errors import LinkLostError
    from gossamer.distribution.links.hub import Hub
    from gossamer.distribution.transport.transport import Channel
    from gossamer.supervisor import Pid, Reason

__all__ = ["Listener"]

log = structlog.get_logger(__name__)


class _ChannelPort(Port):
    """An accepted channel as a process: it ends with the listener."""

    __slots__ = ("_inbound",)

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound

    def on_close(self, reason: Reason) -> None:
        self._inbound.abort()


class _Accepted:
    """The handler of an accepted channel: its inbound end inside a port, so that a fault ends it alone."""

    def __init__(self, hub: Hub, listener: Pid) -> None:
        self._hub = hub
        self._listener = listener
        self._inbound = Inbound(hub)
        self._port = _ChannelPort(self._inbound)
        self._guarded = guarded(self._inbound.message, entry=self._port)

    def opened(self, channel: Channel) -> None:
        label = f"channel from {channel.address}"
        self._port.open(label=label, link_to=self._listener, runtime=self._hub.runtime)
        self._inbound.opened(channel)

    def message(self, data: bytes) -> None:
        self._guarded(data)

    def next_message(self) -> bytes | None:
        return self._inbound.next_message()

    def closed(self, error: LinkLostError | None) -> None:
        self._inbound.closed(error)
        self._port.close()


class Listener(GenServer):
    """Opens the node's distribution port; ends with ``listen_failed`` where it cannot be had."""

    async def init(self, hub: Hub) -> None:
        trap_exit()
        self._hub = hub
        if hub.listening is not None:
            # A listener that was killed could not close its socket.
            await hub.listening.close()
        me = self.process.pid
        try:
            listening = await hub.transport.listen(hub.address, lambda: _Accepted(hub, me))
        except OSError as error:
            shown = show(hub.address)
            message = (
                f"cannot listen for other nodes on {shown}: {error.strerror or error}; expected a free port "
                "of this machine, choose another distribution.port or stop the process that has it"
            )
            raise StopInit(("listen_failed", message)) from error
        hub.listening = listening
        # Port 0 asked for any; a restart must take the same again, since peers know it.
        hub.address = (hub.address[0], listening.address[1])
        log.info("distribution_listening", address=show(hub.address))

    async def handle_info(self, message: Any) -> None:
        # The channels are linked so that they end with this process; their own ends concern it not.
        if not isinstance(message, Exit):
            await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        listening, self._hub.listening = self._hub.listening, None
        if listening is not None:
            await listening.close()
