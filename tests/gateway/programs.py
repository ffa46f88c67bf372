"""A node that serves gRPC, and programs that call it, for tests."""

import asyncio
import base64
from contextlib import asynccontextmanager

import grpc
import pytest

from gossamer import Node
from gossamer.config import Config
from gossamer.distribution import StreamTransport
from gossamer.gateway.grpc import gossamer_pb2 as wire
from gossamer.network import SystemNetwork

CODE = grpc.StatusCode


@asynccontextmanager
async def running(tmp_path, **sections):
    config = Config.model_validate(
        {
            "node": {"name": "solo@127.0.0.1"},
            "cluster": {"port": 0, "discovery": "manual"},
            "distribution": {"port": 0},
            "mqtt": {"server": {"listeners": []}, **sections.pop("mqtt", {})},
            "queues": [{"name": "jobs", "retry": {"initial_backoff": "10ms"}}],
            "api": {"enable": False, **sections.pop("api", {})},
            "grpc": {"enable": True, "port": 0, **sections.pop("grpc", {})},
        }
    )
    (tmp_path / "data").mkdir()
    transport = StreamTransport(SystemNetwork())
    node = Node(config, creation=1, cookie="secret", transport=transport, data_dir=tmp_path / "data")
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


class Program:
    """Calls of one program, whose credentials are ``authorization``."""

    def __init__(self, channel, authorization=None):
        self._channel = channel
        self._metadata = () if authorization is None else (("authorization", authorization),)

    def __getattr__(self, name):
        method = next(
            method
            for service in wire.DESCRIPTOR.services_by_name.values()
            for method in service.methods
            if method.name.lower() == name
        )
        sides = (method.client_streaming, method.server_streaming)
        kind = "_".join("stream" if streaming else "unary" for streaming in sides)
        call = getattr(self._channel, kind)(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=method.input_type._concrete_class.SerializeToString,
            response_deserializer=method.output_type._concrete_class.FromString,
        )
        return lambda *request: call(*request, metadata=self._metadata)


@asynccontextmanager
async def program(node, *authorization):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{node.ports['grpc']}") as channel:
        yield Program(channel, *authorization)


async def queues_are_there(node):
    """Groups of replicas are founded once a cluster has been quiet for some seconds."""
    async with asyncio.timeout(60):
        while not node.queues.listed:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def basic(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def message(topic, payload=b"x", **fields):
    return wire.Message(topic=topic, payload=payload, **fields)


async def publish(program, *messages):
    return await program.publish(wire.PublishRequest(messages=messages))


async def begun(program, topic_filter, **fields):
    """A subscription that is visible."""
    call = program.subscribe(wire.SubscribeRequest(filter=topic_filter, **fields))
    assert await call.read() == wire.Delivery()
    return call


async def payloads(call, count):
    got = []
    while len(got) < count:
        delivery = await call.read()
        got += [one.payload for one in delivery.messages]
    return got


async def consuming(program, **start):
    call = program.consume()
    await call.write(wire.ConsumeRequest(start=wire.ConsumeStart(queue="jobs", group="g", **start)))
    assert (await call.read()).WhichOneof("reply") == "started"
    return call


async def settle(call, job, outcome, **fields):
    """Settle a message; what comes as the answer."""
    said = wire.Settle(offset=job.offset, attempt=job.attempt, outcome=outcome, **fields)
    await call.write(wire.ConsumeRequest(settle=said))
    while (reply := await call.read()).WhichOneof("reply") != "settled":
        pass
    return reply.settled


async def refused(call):
    """The status that a call ends with, and its text."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await (call.read() if hasattr(call, "read") else call)
    return failed.value.code(), failed.value.details()
