"""The data directory of a cluster: lock, cookie, configuration files, and ``cluster.json`` for scripts.

Rules: 1. One launcher a directory; the lock goes with the process that holds it.  2. All nodes get the same
cookie, each in a file that only its owner reads.  3. ``cluster.json`` is there exactly while the cluster is
ready, and never half written.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog
import yaml

from gossamer.config import COOKIE_FILE, NodeConfig, cookie_of, write_cookie
from gossamer.errors import UnavailableError, UsageError
from gossamer.files import replace_file
from gossamer.launch.authority import Authority, local_names
from gossamer.launch.plan import ClusterPlan, node_tree


@contextmanager
def logging_to(file: Path) -> Iterator[None]:
    """Have what this process logs appended to a file, as JSON."""
    with file.open("a", encoding="utf-8") as log:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=structlog.PrintLoggerFactory(log),
        )
        yield


class Workspace:
    """The directory, held while the cluster runs.

    Raises:
        UsageError: it cannot be used.
        UnavailableError: another launcher runs in it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = (directory / "up.lock").open("a")
        except OSError as error:
            got = f"{directory} ({error.strerror or error})"
            raise UsageError(f"--data-dir: got {got}, expected a directory that can be written") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            what = f"{directory} belongs to a cluster that is running"
            raise UnavailableError(f"{what}; stop it, or give another --data-dir") from None
        self.facts_file = directory / "cluster.json"
        self.facts_file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.facts_file.unlink(missing_ok=True)
        self._lock.close()

    def prepare(self, plan: ClusterPlan) -> None:
        """Write what each node reads at start."""
        cookie = cookie_of(NodeConfig(data_dir=self.directory)).get_secret_value()
        _issue(plan)
        for node in plan.nodes:
            node.directory.mkdir(mode=0o700, exist_ok=True)
            mine = node.directory / COOKIE_FILE
            mine.unlink(missing_ok=True)
            write_cookie(mine, cookie)
            text = yaml.safe_dump(node_tree(plan, node), sort_keys=False)
            node.config_file.write_text(
                f"# Written by gossamer up; changes are lost.\n{text}", encoding="utf-8"
            )

    def write_facts(self, facts: Mapping[str, object]) -> None:
        """Write ``cluster.json``."""
        content = json.dumps(facts, indent=2) + "\n"
        replace_file(self.facts_file, content.encode(), mode=0o666, durable=False)


def _issue(plan: ClusterPlan) -> None:
    """Write the certificates of all nodes, and one for Python clients, where the plan wants any."""
    directory = plan.nodes[0].certificates
    if directory is None:
        return
    authority = Authority(directory)
    for node in plan.nodes:
        authority.issue(node.directory.name, local_names(node.host, node.name))
    authority.issue("client", local_names(plan.nodes[0].host))


def cluster_facts(plan: ClusterPlan, pids: Mapping[str, int]) -> dict[str, object]:
    """Return the content of ``cluster.json``."""
    nodes = [{"name": node.name, "pid": pids[node.name], "ports": node.ports} for node in plan.nodes]
    shared = {} if plan.shared_port is None else {"shared_port": plan.shared_port}
    ca_file = plan.nodes[0].ca_file
    tls = {} if ca_file is None else {"ca_file": str(ca_file)}
    return {"nodes": nodes, **shared, **tls}
