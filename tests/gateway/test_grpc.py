"""What programs in any language have of a node: messages, queues, the cluster, and who may do what."""

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from certs import Authority

import gossamer.gateway.grpc as room
from gossamer.api import Role
from gossamer.files import FileError
from gossamer.gateway.grpc import gossamer_pb2 as wire
from gossamer.gateway.grpc import standard_pb2 as standard
from gossamer.mqtt import set_password
from tests.gateway.programs import (
    CODE,
    Program,
    basic,
    begun,
    consuming,
    message,
    payloads,
    program,
    publish,
    queues_are_there,
    refused,
    running,
    settle,
)

ACL = """
allow publish user:writer in/#
allow subscribe user:reader in/#
allow all user:worker $queue/jobs/#
"""


async def test_messages_come_in_order_retained_ones_first(tmp_path):
    async with running(tmp_path) as node, program(node) as ann, program(node) as bob:
        await publish(ann, message("in/kept", b"kept", qos=1, retain=True))
        call = await begun(bob, "in/#", qos=1)
        sent = [b"%d" % number for number in range(600)]
        for start in range(0, 600, 200):
            answer = await publish(ann, *(message("in/x", one, qos=1) for one in sent[start : start + 200]))
            assert (answer.published, list(answer.failures)) == (200, [])
        assert await payloads(call, 601) == [b"kept", *sent]
        late = await begun(bob, "in/#", retain_handling=wire.RETAIN_HANDLING_NONE)
        await publish(ann, message("in/x", b"new"))
        assert await payloads(late, 1) == [b"new"]
        call.cancel()
        late.cancel()


async def test_a_subscription_ends_with_its_call(tmp_path):
    async with running(tmp_path) as node, program(node) as bob:
        call = await begun(bob, "in/#")
        assert node.broker.router.stats()["subscribers"] == 1
        call.cancel()
        async with asyncio.timeout(10):
            while node.broker.router.stats()["subscribers"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_what_cannot_be_published_is_said_and_the_rest_is_published(tmp_path):
    async with running(tmp_path) as node, program(node) as ann:
        answer = await publish(
            ann, message("a/#"), message("a"), message("$queue/jobs"), message("a", qos=3), message("")
        )
        assert answer.published == 1
        assert [(one.index, one.topic) for one in answer.failures] == [
            *((0, "a/#"), (2, "$queue/jobs"), (3, "a"), (4, ""))
        ]
        assert "Append" in answer.failures[1].error
        assert "expected 0, 1 or 2" in answer.failures[2].error
        code, text = await refused(publish(ann, *[message("a")] * 1001))
        assert (code, text) == (
            CODE.INVALID_ARGUMENT,
            "messages: got 1001, expected at most 1000 in a request",
        )
        code, _ = await refused(publish(ann, message("a", bytes(2 << 20))))
        assert code is CODE.RESOURCE_EXHAUSTED


async def test_a_job_is_settled_as_its_worker_says_and_goes_on_when_the_worker_does_not(tmp_path):
    async with running(tmp_path) as node, program(node) as ann, program(node) as bob:
        await queues_are_there(node)
        for number in range(3):
            user = [wire.UserProperty(name="n", value=str(number))]
            await ann.append(wire.AppendRequest(queue="jobs", payload=b"job", key="k", user_properties=user))
        call = await consuming(bob, in_flight=1, offset="first")
        job = (await call.read()).message
        assert (job.offset, job.attempt, job.key, job.payload) == (0, 1, "k", b"job")
        assert [(one.name, one.value) for one in job.user_properties] == [("n", "0")]
        assert (await settle(call, job, wire.OUTCOME_ACK)).error == ""
        assert "no more, with this consumer" in (await settle(call, job, wire.OUTCOME_ACK)).error
        call.cancel()
        async with asyncio.timeout(10):
            # Or what it had would come behind what nobody had.
            while node.queues.consumers:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        other = await consuming(bob, in_flight=2)
        jobs = [(await other.read()).message for _ in range(2)]
        assert [one.offset for one in jobs] == [1, 2]
        assert (await settle(other, jobs[0], wire.OUTCOME_REJECT, reason="no")).error == ""
        assert (await settle(other, jobs[1], wire.OUTCOME_NACK, delay=0.01)).error == ""
        again = (await other.read()).message
        assert (again.offset, again.attempt) == (2, jobs[1].attempt + 1)
        # Who says no more is answered, and the call ends.
        said = wire.Settle(offset=2, attempt=again.attempt)
        await other.write(wire.ConsumeRequest(settle=said))
        await other.done_writing()
        assert (await other.read()).settled == wire.Settled(offset=2, attempt=again.attempt)
        assert await other.read() == grpc.aio.EOF


WRONG_STARTS = [
    ({"queue": "nope", "group": "g"}, CODE.NOT_FOUND, "nope"),
    ({"queue": "jobs"}, CODE.INVALID_ARGUMENT, "group: got '', expected 1 to 64 characters"),
    ({"queue": "jobs", "group": "g", "in_flight": 1001}, CODE.INVALID_ARGUMENT, "in_flight: got 1001"),
    ({"queue": "jobs", "group": "g", "offset": "soon"}, CODE.INVALID_ARGUMENT, "offset: got 'soon'"),
]


async def test_a_wrong_start_says_what_was_expected(tmp_path):
    async with running(tmp_path) as node, program(node) as bob:
        await queues_are_there(node)
        for start, code, text in WRONG_STARTS:
            call = bob.consume()
            await call.write(wire.ConsumeRequest(start=wire.ConsumeStart(**start)))
            got, said = await refused(call)
            assert got is code
            assert text in said
        call = bob.consume()
        await call.write(wire.ConsumeRequest(settle=wire.Settle()))
        code, text = await refused(call)
        assert code is CODE.INVALID_ARGUMENT
        assert text == "consume: expected a start as the first request of the call"


async def test_a_user_of_mqtt_may_do_what_the_access_list_says(tmp_path):
    users, acl = tmp_path / "users", tmp_path / "acl"
    for name in ("writer", "reader", "worker"):
        set_password(users, name, name)
    acl.write_text(ACL)
    auth = {"auth": {"password_file": str(users), "acl_file": str(acl)}}
    async with (
        running(tmp_path, mqtt=auth) as node,
        program(node, basic("writer", "writer")) as writer,
        program(node, basic("reader", "reader")) as reader,
        program(node, basic("worker", "worker")) as worker,
        program(node, basic("worker", "wrong")) as stranger,
        program(node, "Basic ???") as nonsense,
    ):
        await queues_are_there(node)
        call = await begun(reader, "in/#")
        answer = await publish(writer, message("in/x"), message("out/x"))
        assert answer.published == 1
        assert "access list" in answer.failures[0].error
        assert await payloads(call, 1) == [b"x"]
        code, _ = await refused(writer.subscribe(wire.SubscribeRequest(filter="in/#")))
        assert code is CODE.PERMISSION_DENIED
        assert (await worker.append(wire.AppendRequest(queue="jobs", payload=b"x"))).offset == 0
        await consuming(worker)
        code, _ = await refused(reader.append(wire.AppendRequest(queue="jobs", payload=b"x")))
        assert code is CODE.PERMISSION_DENIED
        assert (await refused(worker.status(wire.StatusRequest())))[0] is CODE.PERMISSION_DENIED
        # Recorded as of clients of MQTT: two publishes, one to a queue, and a subscription.
        assert node.broker.access.decisions["publish", "acl", "deny"] == 2
        assert node.broker.access.decisions["subscribe", "acl", "deny"] == 1
        for one in (stranger, nonsense):
            assert (await refused(publish(one, message("in/x"))))[0] is CODE.UNAUTHENTICATED


async def test_no_program_reaches_a_tenant(tmp_path):
    """A user of one would get what is the default tenant's; and no name from inside is taken from anybody."""
    users = tmp_path / "users"
    set_password(users, "ann", "pw", tenant="acme")
    set_password(users, "dan", "pw")
    auth = {"auth": {"password_file": str(users)}}
    async with (
        running(tmp_path, mqtt=auth) as node,
        program(node, basic("ann", "pw")) as ann,
        program(node, basic("dan", "pw")) as dan,
    ):
        code, text = await refused(ann.subscribe(wire.SubscribeRequest(filter="#")))
        assert code is CODE.PERMISSION_DENIED
        assert "of a tenant" in text
        assert (await refused(publish(ann, message("x"))))[0] is CODE.PERMISSION_DENIED
        code, _ = await refused(dan.subscribe(wire.SubscribeRequest(filter="$\0acme/#")))
        assert code is CODE.INVALID_ARGUMENT
        assert (await publish(dan, message("$\0acme/x"))).published == 0


async def test_a_token_carries_its_role(tmp_path):
    async with running(tmp_path, api={"loopback_role": "none"}) as node:
        made = {role: node.tokens.create(name=role, role=role, lifetime=60, by="test")[0] for role in Role}
        async with program(node) as nobody, program(node, "Bearer gsm_x") as wrong:
            code, _ = await refused(nobody.status(wire.StatusRequest()))
            assert code in (CODE.UNAUTHENTICATED, CODE.PERMISSION_DENIED)
            assert (await refused(wrong.status(wire.StatusRequest())))[0] is CODE.UNAUTHENTICATED
            codes = [(await refused(wrong.status(wire.StatusRequest())))[0] for _ in range(10)]
            assert codes[-1] is CODE.RESOURCE_EXHAUSTED
        async with program(node, f"Bearer {made[Role.VIEWER]}") as viewer:
            status = await viewer.status(wire.StatusRequest())
            assert (status.node, status.state) == ("solo@127.0.0.1", "running")
            assert [one.status for one in status.nodes] == ["online"]
            assert "operator" in (await publish(viewer, message("a"))).failures[0].error
        async with program(node, f"Bearer {made[Role.OPERATOR]}") as operator:
            assert (await publish(operator, message("a"))).published == 1
            code, _ = await refused(operator.subscribe(wire.SubscribeRequest(filter="a")))
            assert code is CODE.PERMISSION_DENIED
        async with program(node, f"Bearer {made[Role.ADMIN]}") as admin:
            await begun(admin, "a")


async def test_a_renewed_certificate_is_shown_from_the_next_connection_on(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.issue("node", "127.0.0.1")
    tls = {"cert_file": str(cert), "key_file": str(key)}

    async def shown(node):
        context = ssl.create_default_context(cafile=authority.file)
        context.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection("127.0.0.1", node.ports["grpc"], ssl=context)
        writer.close()
        return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]

    async with running(tmp_path, grpc={"tls": tls}) as node:
        credentials = grpc.ssl_channel_credentials(authority.file.read_bytes())
        target = f"127.0.0.1:{node.ports['grpc']}"
        async with grpc.aio.secure_channel(target, credentials) as channel:
            assert (await publish(Program(channel), message("a"))).published == 1
        before = await shown(node)
        renewed = authority.issue("node", "127.0.0.1")
        assert renewed == (cert, key)
        (mine,) = [one for one in node.reloadable if cert in one.files()]
        mine.load()
        assert await shown(node) != before
        key.unlink()
        with pytest.raises(FileError, match="gRPC"):
            mine.load()


async def test_tools_that_know_nothing_find_out(tmp_path):
    async with running(tmp_path) as node, program(node) as ann:
        check = ann._channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=standard.HealthRequest.SerializeToString,
            response_deserializer=standard.HealthReply.FromString,
        )
        assert (await check(standard.HealthRequest())).status == 1
        assert (await check(standard.HealthRequest(service="gossamer.v1.Queues"))).status == 1
        assert (await refused(check(standard.HealthRequest(service="x"))))[0] is CODE.NOT_FOUND
        reflect = ann._channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=standard.ReflectionRequest.SerializeToString,
            response_deserializer=standard.ReflectionReply.FromString,
        )()
        await reflect.write(standard.ReflectionRequest(list_services="*"))
        names = [one.name for one in (await reflect.read()).services.service]
        assert names == [
            *("gossamer.v1.Cluster", "gossamer.v1.Messages", "gossamer.v1.Queues", "grpc.health.v1.Health"),
        ]
        for symbol in ("gossamer.v1.Queues", "gossamer.v1.Queues.Append", "gossamer.v1.Message"):
            await reflect.write(standard.ReflectionRequest(file_containing_symbol=symbol))
            assert list((await reflect.read()).files.file_descriptors) == [wire.DESCRIPTOR.serialized_pb]
        await reflect.write(standard.ReflectionRequest(file_containing_symbol="nope"))
        assert (await reflect.read()).error.error_code == 5


def test_the_modules_are_what_the_compiler_makes_of_the_files(tmp_path):
    here = Path(room.__file__).parent
    root = here.parents[2]
    files = [str(file.relative_to(root)) for file in sorted(here.glob("*.proto"))]
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        "-I.",
        f"--python_out={tmp_path}",
        f"--pyi_out={tmp_path}",
    ]
    subprocess.run([*command, *files], cwd=root, check=True)
    made = sorted(tmp_path.rglob("*_pb2.py*"))
    assert [file.name for file in made] == sorted(file.name for file in here.glob("*_pb2.py*"))
    for file in made:
        assert file.read_text() == (here / file.name).read_text(), "run script/protos"
