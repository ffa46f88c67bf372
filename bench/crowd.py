"""What a crowd of event-stream readers does to a node, and to everybody else who asks it.

    python bench/crowd.py --readers 10000

All of them ask for ``/api/v1/live`` as fast as they can, over and over; those who get it do not read. Others
ask a probe, the metrics and the API meanwhile. It shows who was served, what the others waited, and what
memory and files the node took; then what is left when the crowd is gone.
"""

import argparse
import asyncio
import contextlib
import http.client
import os
import statistics
import threading
import time
from collections import Counter
from pathlib import Path

from api import Cluster, memory, processor

REQUEST = b"GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
OTHERS = ("/health", "/ready", "/metrics", "/api/v1/nodes")


def files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def crowd(port: int, readers: int, seconds: float) -> Counter[str]:
    """Everybody at once; who is refused comes back after a second."""
    seen: Counter[str] = Counter()
    over = time.monotonic() + seconds

    async def read() -> None:
        while time.monotonic() < over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            except OSError as error:
                seen[type(error).__name__] += 1
                await asyncio.sleep(1)
                continue
            try:
                writer.write(REQUEST)
                status = (await reader.readuntil(b"\r\n"))[9:12].decode()
                seen[status] += 1
                if status == "200":
                    writer.transport.pause_reading()
                    await asyncio.sleep(over - time.monotonic())
            except (OSError, asyncio.IncompleteReadError):
                seen["closed"] += 1
            finally:
                writer.transport.abort()
            await asyncio.sleep(1)

    await asyncio.gather(*(read() for _ in range(readers)))
    return seen


def ask(port: int, over: threading.Event, waits: dict[str, list[float]], failures: Counter[str]) -> None:
    while not over.is_set():
        for path in OTHERS:
            begin = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            with contextlib.closing(connection):
                try:
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException) as error:
                    failures[f"{path} {type(error).__name__}"] += 1
                    continue
            if answer.status == 200:
                waits[path].append(time.perf_counter() - begin)
            else:
                failures[f"{path} {answer.status}"] += 1
        over.wait(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readers", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    print(f"{options.readers:,} readers, {options.seconds:g} s; load average {os.getloadavg()[0]:.1f}")
    with Cluster(1) as cluster:
        pid, port = cluster.pids[0], cluster.api[0]
        cluster.get(0, "/api/v1/nodes")
        start, open_before = memory(pid), files(pid)
        for name, count in (("nobody", 0), ("the crowd", options.readers)):
            waits: dict[str, list[float]] = {path: [] for path in OTHERS}
            failures: Counter[str] = Counter()
            over = threading.Event()
            others = threading.Thread(target=ask, args=(port, over, waits, failures))
            others.start()
            used, begin = processor(pid), time.monotonic()
            if count:
                seen = asyncio.run(crowd(port, count, options.seconds))
                print(f"the crowd: {dict(seen.most_common())}")
            else:
                time.sleep(3)
            took = time.monotonic() - begin
            share = (processor(pid) - used) / took
            print(f"{name}: node {share:.0%} of a core, {memory(pid) / 1e6:.0f} MB, {files(pid)} files")
            over.set()
            others.join()
            for path, found in waits.items():
                ranked = sorted(found)
                print(
                    f"  {path}: {len(found)} asked, median {statistics.median(ranked) * 1000:.1f} ms, "
                    f"p99 {ranked[int(len(ranked) * 0.99)] * 1000:.1f} ms"
                    if found
                    else f"  {path}: none"
                )
            print(f"  refused or failed: {dict(failures) or 'none'}")
        time.sleep(3)
        print(f"after: {(memory(pid) - start) / 1e6:+.0f} MB, {files(pid) - open_before:+} files")


if __name__ == "__main__":
    main()
