"""The API as a process of the node: uvicorn's HTTP protocol behind the node's own network seam.

Rules: 1. The listener is opened through :class:`~gossamer.network.Network`, so a taken port is an error of
ours that names the key, and the simulator can stand in.  2. uvicorn brings its protocol only, which
:class:`~gossamer.api.http.connection.Connection` bounds: no main loop that ticks, no signal handlers.
3. However the process ends, killed included, its listener closes and its connections are gone, so that the
supervisor can start it again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable

import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from gossamer.api.http.connection import Connection, Connections
from gossamer.config import ApiConfig
from gossamer.network import Listener, Network
from gossamer.supervisor import GenServer, Reply, StopInit, trap_exit

log = structlog.get_logger(__name__)

GRACE = 1.0
"""Seconds that requests under way get when the server stops."""
BACKLOG = 128
IDLE_WAIT = 15
"""Seconds that a connection lasts without a request."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ApiServer(GenServer):
    """Serves what ``make`` gives, by HTTPS with ``tls``; a call with ``"address"`` gives where it listens."""

    async def init(
        self,
        make: Callable[[], FastAPI],
        *,
        config: ApiConfig,
        network: Network,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        trap_exit(True)
        # A schema for each route, and the document of all: half a second that others need not wait.
        app = await asyncio.to_thread(make)
        await asyncio.to_thread(app.openapi)
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
            timeout_keep_alive=IDLE_WAIT,
            h11_max_incomplete_event_size=256 * 1024,
        )
        self._settings.load()
        # A line for each request that cannot be read would be the caller's to fill; they are counted.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._connections = Connections(app.state.limits)
        self._state = ServerState()
        address = (config.host or "0.0.0.0", config.port)  # noqa: S104 - blank means every address
        try:
            # Fewer at once than there are places: who was let in is heard before others take them.
            self._listener: Listener = await network.listen(
                self._make_protocol, address, tls=tls, backlog=BACKLOG
            )
        except OSError as error:
            where, why = f"{address[0]}:{address[1]}", error.strerror or str(error)
            text = f"cannot listen at {where}: {why}; free the port or set api.port to another"
            raise StopInit(("port_taken", text)) from error
        self.process.on_release(lambda _entry: self._cut())
        if config.host not in LOOPBACK and tls is None:
            advice = "tokens travel in the clear; set api.tls, or put TLS before it"
            log.warning("api_open_to_network", host=address[0], advice=advice)

    def _make_protocol(self) -> asyncio.BaseProtocol:
        return Connection(self._connections, config=self._settings, server_state=self._state, app_state={})

    async def handle_call(self, request: object, caller: object) -> Reply:
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
