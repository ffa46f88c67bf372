"""The API as a process of the node: uvicorn's HTTP protocol behind the node's own network seam.

Rules: 1. The listener is opened through :class:`~gossamer.network.Network`, so a taken port is an error of
ours that names the key, and the simulator can stand in.  2. uvicorn brings its protocol only: no main loop
that ticks, no signal handlers, no log of its own.  3. However the process ends, killed included, its listener
closes and its connections are gone, so that the supervisor can start it again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog
import uvicorn
from uvicorn.server import ServerState

from gossamer.api.app import make_app
from gossamer.api.relay import Relay
from gossamer.api.tokens import Tokens
from gossamer.api.view import NodeView
from gossamer.clock import Clock
from gossamer.config import ApiConfig
from gossamer.errors import UnavailableError
from gossamer.network import Address, Listener, Network
from gossamer.supervisor import Continue, GenServer, Reply, StopInit, trap_exit

__all__ = ["ApiServer", "PortTakenError"]

log = structlog.get_logger(__name__)

GRACE = 1.0
"""Seconds that requests under way get when the server stops."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class PortTakenError(UnavailableError):
    """An address of the configuration cannot be bound."""

    def __init__(self, *, key: str, address: Address, reason: str) -> None:
        self.key = key
        self.address = address
        self.reason = reason
        super().__init__(
            f"cannot listen at {address[0]}:{address[1]}: {reason}; free the port or set {key} to another"
        )


class ApiServer(GenServer):
    """Serves the API of ``view``; a call with ``"address"`` gives where it listens."""

    async def init(
        self,
        view: NodeView,
        *,
        config: ApiConfig,
        network: Network,
        tokens: Tokens | None = None,
        clock: Clock | None = None,
        relay: Relay | None = None,
    ) -> Continue | None:
        trap_exit(True)
        # It compiles a schema for each route, a tenth of a second in all, which others need not wait for.
        app = await asyncio.to_thread(make_app, view, config=config, tokens=tokens, clock=clock)
        if relay is not None:
            relay.use(app)
        self._settings = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=256,
            timeout_keep_alive=15,
            h11_max_incomplete_event_size=256 * 1024,
        )
        self._settings.load()
        self._state = ServerState()
        address = (config.host or "0.0.0.0", config.port)  # noqa: S104 - blank means every address
        try:
            self._listener: Listener = await network.listen(self._make_protocol, address)
        except OSError as error:
            taken = PortTakenError(key="api.port", address=address, reason=error.strerror or str(error))
            raise StopInit(("port_taken", str(taken))) from error
        self.process.on_release(lambda _entry: self._cut())
        if config.host not in LOOPBACK:
            log.warning(
                "api_open_to_network", host=address[0], advice="tokens travel in the clear; put TLS before it"
            )
        return None

    def _make_protocol(self) -> asyncio.BaseProtocol:
        factory: Any = self._settings.http_protocol_class
        protocol: asyncio.BaseProtocol = factory(
            config=self._settings, server_state=self._state, app_state={}
        )
        return protocol

    async def handle_call(self, request: Any, caller: Any) -> Reply:
        return Reply(self._listener.address)

    async def terminate(self, reason: object) -> None:
        self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=GRACE)

    def _cut(self) -> None:
        """Let go of everything at once; whatever way the process ends, this runs."""
        self._listener.close()
        for task in self._state.tasks:
            task.cancel()
        for connection in list(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()
