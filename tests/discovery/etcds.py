"""Real etcd servers, and nodes that find each other through them."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import psutil
from certs import Authority

from gossamer.config import Endpoint
from gossamer.config.discovery import EtcdConfig
from gossamer.discovery import Discovered, DiscoveryFailedError, Strategy
from gossamer.discovery.etcd import Etcd
from gossamer.discovery.etcd_client import EtcdClient
from gossamer.discovery.etcd_embedded import etcd_programs
from gossamer.gossip import Member, MemberMetadata, Status
from gossamer.supervisor import Runtime, Supervisor

PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A real etcd, of which the test decides the fate; with ``authority`` it speaks TLS."""

    def __init__(
        self, directory: Path, authority: Authority | None = None, *, certificates_of_clients: bool = False
    ) -> None:
        self.directory = directory
        self.port, self.peer_port = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._scheme = "http"
        self._options: list[str] = []
        if authority is not None:
            self._scheme = "https"
            certificate, key = authority.issue("etcd", "localhost", "127.0.0.1")
            self._options = ["--cert-file", str(certificate), "--key-file", str(key)]
            if certificates_of_clients:
                self._options += ["--trusted-ca-file", str(authority.file), "--client-cert-auth"]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        peer = f"http://127.0.0.1:{self.peer_port}"
        command = [
            etcd_programs()[0],
            *("--name", "test", "--data-dir", str(self.directory), "--log-level", "error"),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--initial-cluster", f"test={peer}", "--heartbeat-interval", "50", "--election-timeout", "500"),
            "--unsafe-no-fsync",
            *self._options,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            # It takes a moment to reach all threads, in which they may still answer.
            stopped = psutil.STATUS_STOPPED
            process = psutil.Process(self.process.pid)
            while any(psutil.Process(thread.id).status() != stopped for thread in process.threads()):
                time.sleep(0.001)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def client(self, *others: int, **options: Any) -> EtcdClient:
        ports = (*others, self.port)
        config = EtcdConfig(timeout=1.0, **options)
        return EtcdClient([Endpoint("127.0.0.1", port) for port in ports], config)

    def control(self, *arguments: str) -> None:
        """``etcdctl``."""
        program = str(Path(etcd_programs()[0]).with_name("etcdctl"))
        command = [program, "--endpoints", self.url, "--dial-timeout", "20s", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


def member(number: int) -> Member:
    name = f"node{number}"
    return Member("0" * 16, name, f"10.0.0.{number}", 7946, Status.ONLINE, 1, MemberMetadata(name))


class Registrant:
    """Enters a register as the loop does."""

    strategy: Strategy

    def __init__(self, number: int) -> None:
        self.member = member(number)

    async def enter(self) -> Discovered:
        """One round of the loop, again until it goes well."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self.strategy.lock()
                    found = await self.strategy.discover(self.member.endpoint)
                    await self.strategy.register(self.member)
                except DiscoveryFailedError:
                    await asyncio.sleep(0.1)
                else:
                    return found
                finally:
                    await self.strategy.unlock()

    async def sees(self, *numbers: int) -> None:
        wanted = {member(number).endpoint for number in numbers}

        async def look() -> bool:
            found = await self.strategy.discover(self.member.endpoint)
            return set(found.addresses) == wanted and not found.problems

        await eventually(look)

    async def troubled(self) -> bool:
        """A look finds a problem."""
        return bool((await self.strategy.discover(self.member.endpoint)).problems)


class Node(Registrant):
    """The strategy of one node with what runs beside it."""

    def __init__(self, server: Server, number: int, *, ttl: float = 60.0, client: EtcdClient | None = None):
        super().__init__(number)
        self.client = client or server.client()
        config = EtcdConfig(prefix="g", node_ttl=ttl, lock_ttl=3.0)
        self.strategy: Etcd = Etcd(self.client, config, node=self.member.name, env="test")
        self.runtime = Runtime(node=self.member.name)

    async def start(self) -> Node:
        await self.runtime.start(Supervisor, self.strategy.children(), intensity=0, name="top")
        return self

    async def stop(self) -> None:
        await self.runtime.stop()
        await self.client.close()


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            outcome = condition()
            if await outcome if asyncio.iscoroutine(outcome) else outcome:
                return
            await asyncio.sleep(0.05)


async def keys(client: EtcdClient) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return [item.key for item in await client.range("g/")]
            except DiscoveryFailedError:
                await asyncio.sleep(0.1)
