"""mosquitto_pub, mosquitto_sub and mosquitto_rr, option by option, over real sockets."""

import asyncio
import threading

import pytest

from .statements import keeps
from .third import TIMEOUT, broker, play, port

__all__ = ["broker", "play", "port"]

pytestmark = pytest.mark.real


async def mosquitto(tool, port, *args, version="mqttv5"):
    return await asyncio.create_subprocess_exec(
        f"mosquitto_{tool}", "-h", "127.0.0.1", "-p", str(port), "-V", version, *args,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def ended(process, code=0):
    async with asyncio.timeout(TIMEOUT):
        out, error = await process.communicate()
    assert process.returncode == code, error.decode()
    return out.decode()


async def subscribed(broker, topic_filter):
    async with asyncio.timeout(TIMEOUT):
        while not any(topic_filter in s.subscriptions for s in broker.sessions.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@keeps(v5="3.3.2-4,15,16,17,18,20 3.3.4-3")
async def test_mosquitto_sends_and_prints_every_property(broker, port):
    sub = await mosquitto(
        "sub", port, "-t", "t/+", "-C", "1", "-q", "2", "-D", "subscribe", "subscription-identifier", "42",
        "-F", "%t|%p|%q|%r|%C|%D|%E|%F|%P|%R|%S",
    )  # fmt: skip
    await subscribed(broker, "t/+")
    user = ("-D", "publish", "user-property")
    pub = await mosquitto(
        "pub", port, "-t", "t/x", "-m", "hello", "-q", "2", *user, "b", "1", *user, "a", "2",
        "-D", "publish", "content-type", "text/plain", "-D", "publish", "correlation-data", "c0",
        "-D", "publish", "message-expiry-interval", "60", "-D", "publish", "payload-format-indicator", "1",
        "-D", "publish", "response-topic", "reply", "-D", "publish", "topic-alias", "3",
    )  # fmt: skip
    await ended(pub)
    assert await ended(sub) == "t/x|hello|2|0|text/plain|c0|60|1|b:1 a:2|reply|42\n"


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
async def test_mosquitto_keeps_and_removes_retained_messages(broker, port, version):
    await ended(await mosquitto("pub", port, "-t", "t", "-m", "kept", "-r", "-q", "1", version=version))
    printed = ("-t", "t", "-C", "1", "-W", "10", "-F", "%r %p")
    found = await ended(await mosquitto("sub", port, *printed, "--retained-only", version=version))
    assert found == "1 kept\n"
    removing = await mosquitto("sub", port, "-t", "t", "--remove-retained", "-W", "1", version=version)
    async with asyncio.timeout(TIMEOUT):
        while len(broker.retained):  # noqa: ASYNC110 - by design
            await asyncio.sleep(0.005)
    removing.kill()
    await removing.wait()


async def test_mosquitto_keeps_a_session(broker, port):
    options = ("-t", "t", "-q", "1", "-c", "-i", "keeper", "-x", "60", "-F", "%p")
    sub = await mosquitto("sub", port, *options, "-E")
    await ended(sub)
    for n in range(3):
        await ended(await mosquitto("pub", port, "-t", "t", "-m", str(n), "-q", "1"))
    assert await ended(await mosquitto("sub", port, *options, "-C", "3")) == "0\n1\n2\n"


async def test_mosquitto_asks_and_is_answered(broker, port, play):
    """mosquitto_rr makes up the correlation; paho answers."""

    def scenario(make):
        answering = make("answering")
        answering.subscribe("ask", qos=1)
        ready.set()
        answering.payloads(1)
        asked = answering.messages[0].properties
        more = {"CorrelationData": asked.CorrelationData} if hasattr(asked, "CorrelationData") else {}
        answering.publish(asked.ResponseTopic, b"yes", qos=1, **more)

    ready = threading.Event()
    answerer = asyncio.ensure_future(play(scenario))
    await asyncio.to_thread(ready.wait, TIMEOUT)
    rr = await mosquitto("rr", port, "-t", "ask", "-e", "answer", "-m", "?", "-q", "1", "-W", "10")
    assert await ended(rr) == "yes\n"
    await answerer


@keeps(v5="3.1.2-8 3.3.1-13")
async def test_mosquittos_will_and_retain_as_published(broker, port):
    watcher = await mosquitto("sub", port, "-t", "will", "--retain-as-published", "-C", "1", "-F", "%r %p %P")
    await subscribed(broker, "will")
    dying = await mosquitto(
        "sub", port, "-t", "x", "-x", "60", "--will-topic", "will", "--will-payload", "gone", "--will-retain",
        "-D", "will", "will-delay-interval", "1", "-D", "will", "user-property", "k", "v",
    )  # fmt: skip
    await subscribed(broker, "x")
    dying.kill()
    await dying.wait()
    assert await ended(watcher) == "1 gone k:v\n"


async def test_mosquitto_shares_a_subscription(broker, port):
    members = [
        await mosquitto("sub", port, "-t", "$share/g/t", "-C", "2", "-F", "%p", "-i", f"m{n}")
        for n in range(2)
    ]
    async with asyncio.timeout(TIMEOUT):
        while sum("$share/g/t" in s.subscriptions for s in broker.sessions.values()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    for n in range(4):
        await ended(await mosquitto("pub", port, "-t", "t", "-m", str(n), "-q", "1"))
    got = [(await ended(member)).split() for member in members]
    assert sorted(got[0] + got[1]) == ["0", "1", "2", "3"]
