"""RabbitMQ's quorum queues and NATS JetStream for ``queues.py``: three nodes each, and just enough of AMQP
0-9-1 and of the NATS protocol to publish one message at a time with a confirmation, and to consume.

RabbitMQ syncs its log before it confirms. NATS acknowledges once a majority has the message, which its files
have without a sync: what the others promise after a power cut it does not.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Iterator
from itertools import count

QUEUE = "jobs"
Taken = Callable[[bytes], object]


class Amqp:
    """Connection with one channel, whose publishes are confirmed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._confirms: dict[int, asyncio.Future[None]] = {}
        self._tags = count(1)
        self._taken: Taken | None = None
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, port: int) -> Amqp:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self = cls(reader, writer)
        writer.write(b"AMQP\0\0\x09\x01")
        await self._expect(10, 10)
        start_ok = struct.pack(">I", 0) + _short("PLAIN") + _long(b"\0guest\0guest") + _short("en_US")
        self._method(0, 10, 11, start_ok)
        tune = await self._expect(10, 30)
        self._method(0, 10, 31, tune[:8])
        self._method(0, 10, 40, _short("/") + b"\0\0")
        await self._expect(10, 41)
        self._method(1, 20, 10, b"\0")
        await self._expect(20, 11)
        arguments = _short("x-queue-type") + b"S" + _long(b"quorum")
        self._method(1, 50, 10, b"\0\0" + _short(QUEUE) + b"\x02" + _long(arguments))
        await self._expect(50, 11)
        return self

    async def speaks(self) -> Amqp:
        self._method(1, 85, 10, b"\0")
        await self._expect(85, 11)
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def consumes(self, taken: Taken, limit: int = 100) -> Amqp:
        self._taken = taken
        self._method(1, 60, 10, struct.pack(">IHB", 0, limit, 0))
        await self._expect(60, 11)
        self._method(1, 60, 20, b"\0\0" + _short(QUEUE) + _short("") + b"\0" + _long(b""))
        await self._expect(60, 21)
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def publish(self, payload: bytes) -> None:
        """Publish a message that survives a restart; return once it is confirmed."""
        tag = next(self._tags)
        done = self._confirms[tag] = asyncio.get_running_loop().create_future()
        method = struct.pack(">HH", 60, 40) + b"\0\0" + _short("") + _short(QUEUE) + b"\0"
        header = struct.pack(">HHQHB", 60, 0, len(payload), 0x1000, 2)
        self._writer.write(_frame(1, 1, method) + _frame(2, 1, header) + _frame(3, 1, payload))
        await done

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()

    def _method(self, channel: int, kind: int, method: int, arguments: bytes) -> None:
        self._writer.write(_frame(1, channel, struct.pack(">HH", kind, method) + arguments))

    async def _frames(self) -> tuple[int, bytes]:
        kind, _, size = struct.unpack(">BHI", await self._reader.readexactly(7))
        return kind, (await self._reader.readexactly(size + 1))[:-1]

    async def _expect(self, kind: int, method: int) -> bytes:
        _, body = await self._frames()
        if struct.unpack_from(">HH", body) != (kind, method):
            raise RuntimeError(f"RabbitMQ: {kind}.{method} was expected, got {body[:200]!r}")
        return body[4:]

    async def _read(self) -> None:
        tag = 0
        while True:
            kind, body = await self._frames()
            if kind == 3 and self._taken is not None:
                self._taken(body)
                self._method(1, 60, 80, struct.pack(">QB", tag, 0))
            elif kind != 1:
                continue
            elif body[:4] == b"\0\x3c\0\x3c":
                at = 5 + body[4]
                (tag,) = struct.unpack_from(">Q", body, at)
            elif body[:4] == b"\0\x3c\0\x50":
                upto, several = struct.unpack_from(">QB", body, 4)
                for one in [tag for tag in self._confirms if tag == upto or (several and tag < upto)]:
                    self._confirms.pop(one).set_result(None)


def _frame(kind: int, channel: int, body: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(body)) + body + b"\xce"


def _short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


class Nats:
    """Connection to a server of a cluster with JetStream."""

    _numbers = count(1)

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._inbox = f"_INBOX.bench{next(self._numbers)}"
        self._answers: dict[str, asyncio.Future[bytes]] = {}
        self._tokens: Iterator[int] = count(1)
        self._taken: Taken | None = None
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, port: int) -> Nats:
        self = cls(*await asyncio.open_connection("127.0.0.1", port))
        await self._reader.readline()
        self._writer.write(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
        self._writer.write(f"SUB {self._inbox}.* 1\r\n".encode())
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def speaks(self) -> Nats:
        """Make the stream, unless it is there: a work queue in files of three servers."""
        stream = {
            "name": QUEUE,
            "subjects": [QUEUE],
            "retention": "workqueue",
            "storage": "file",
            "num_replicas": 3,
        }
        said = json.loads(await self._ask(f"$JS.API.STREAM.CREATE.{QUEUE}", json.dumps(stream).encode()))
        if "error" in said:
            raise RuntimeError(f"NATS: {said['error']}")
        return self

    async def consumes(self, taken: Taken, limit: int = 400) -> Nats:
        self._taken = taken
        self._writer.write(f"SUB deliver.{QUEUE} workers 2\r\n".encode())
        wanted = {
            "durable_name": "workers",
            "deliver_subject": f"deliver.{QUEUE}",
            "deliver_group": "workers",
            "ack_policy": "explicit",
            "max_ack_pending": limit,
        }
        asked = json.dumps({"stream_name": QUEUE, "config": wanted}).encode()
        said = json.loads(await self._ask(f"$JS.API.CONSUMER.DURABLE.CREATE.{QUEUE}.workers", asked))
        if "error" in said:
            raise RuntimeError(f"NATS: {said['error']}")
        return self

    async def publish(self, payload: bytes) -> None:
        """Publish a message; return once a majority has it."""
        said = json.loads(await self._ask(QUEUE, payload))
        if "error" in said:
            raise RuntimeError(f"NATS: {said['error']}")

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()

    async def _ask(self, subject: str, payload: bytes) -> bytes:
        token = f"{self._inbox}.{next(self._tokens)}"
        done = self._answers[token] = asyncio.get_running_loop().create_future()
        self._writer.write(f"PUB {subject} {token} {len(payload)}\r\n".encode() + payload + b"\r\n")
        return await done

    async def _read(self) -> None:
        while line := await self._reader.readline():
            if line.startswith(b"PING"):
                self._writer.write(b"PONG\r\n")
            elif line.startswith(b"MSG"):
                _, subject, _, *reply, size = line.split()
                body = (await self._reader.readexactly(int(size) + 2))[:-2]
                waits = self._answers.pop(subject.decode(), None)
                if waits is not None:
                    waits.set_result(body)
                elif self._taken is not None and reply:
                    self._taken(body)
                    self._writer.write(b"PUB " + reply[0] + b" 4\r\n+ACK\r\n")
