"""Clients that connect over TLS, one after the other, ``at_once`` at a time: a broker's cost of a handshake.

``load.tls(...)`` runs it in a process of its own; the answer is one JSON object on stdout. With ``resume``
each thread shows the session that its connection before was given, as a device that comes back does. TLS 1.3
only; OpenSSL works without Python's lock, so that threads are enough to keep a broker busy.
"""

import json
import socket
import ssl
import sys
import threading
import time
from pathlib import Path

CONNACK = b"\x20\x02\x00\x00"


def cpu_of(pids: str) -> float:
    """Processor time of these processes, in seconds."""
    total = 0.0
    for pid in pids.split(","):
        # In nanoseconds, of each thread.
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(path.read_text().split()[0]) / 1e9
    return total


def connect_packet(name: str) -> bytes:
    """CONNECT of 3.1.1 with a clean session."""
    body = b"\0\4MQTT\4\2\0\x3c" + len(name).to_bytes(2, "big") + name.encode()
    return bytes((0x10, len(body))) + body


class Clients:
    """Connects ``count`` times to ``port``, from ``at_once`` threads."""

    def __init__(self, port: int, ca: str, count: int, at_once: int, *, resume: bool) -> None:
        self._port = port
        self._resume = resume
        self._left = count
        self._at_once = at_once
        self._lock = threading.Lock()
        self._context = ssl.create_default_context(cafile=ca)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.check_hostname = False
        self.took: list[float] = []
        self.resumed = self.lost = 0

    def run(self) -> None:
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(self._at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, number: int) -> None:
        session: ssl.SSLSession | None = None
        while True:
            with self._lock:
                if not self._left:
                    return
                self._left -= 1
                left = self._left
            try:
                session = self._connect(f"tls-{number}-{left}", session if self._resume else None)
            except OSError:
                self.lost += 1

    def _connect(self, name: str, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        began = time.monotonic()
        with (
            socket.create_connection(("127.0.0.1", self._port), 10) as plain,
            self._context.wrap_socket(plain, session=session) as secure,
        ):
            secure.sendall(connect_packet(name))
            if secure.recv(4) != CONNACK:
                raise ConnectionError("no CONNACK")
            self.took.append(time.monotonic() - began)
            self.resumed += bool(secure.session_reused)
            secure.sendall(b"\xe0\0")
            # The ticket came with what was read.
            return secure.session


def main() -> None:
    options = dict(part.split("=", 1) for part in sys.argv[1:])
    clients = Clients(
        int(options["port"]),
        options["ca"],
        int(options["count"]),
        int(options["at_once"]),
        resume=options["resume"] == "1",
    )
    before, began = cpu_of(options["pids"]), time.monotonic()
    clients.run()
    wall, cpu = time.monotonic() - began, cpu_of(options["pids"]) - before
    took = sorted(clients.took) or [0.0]
    outcome = {
        "per_second": len(clients.took) / wall,
        "broker_cpu": cpu / wall,
        "p50_us": took[len(took) // 2] * 1e6,
        "p99_us": took[len(took) * 99 // 100] * 1e6,
        "lost": clients.lost,
        "resumed": clients.resumed,
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
