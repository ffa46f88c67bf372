"""The retained messages of a subscription that begins: sent in steps, and no faster than the client takes.

Rules: 1. A topic is looked up when its turn has come, so what is sent is what is retained then.  2. What is
on another node is fetched after the rest, several at a time.  3. Share groups get none (MQTT 5.0, 4.8.2).
"""

from __future__ import annotations

import asyncio

from gossamer.gateway.outlet import Outlet
from gossamer.mqtt import Broker, Message
from gossamer.routes import body_of

__all__ = ["send_retained", "wants_retained"]

STEP = 200
"""Topics a turn of the loop."""
FETCHES = 16


def wants_retained(topic_filter: str, handling: int, *, again: bool) -> bool:
    """``handling`` as in MQTT 5.0, 3.8.3.1; ``again``: the client had the subscription at another node."""
    return not topic_filter.startswith("$share/") and (handling == 0 or (handling == 1 and not again))


async def send_retained(broker: Broker, topic_filter: str, qos: int, outlet: Outlet) -> None:
    """Put what is retained under ``topic_filter`` into ``outlet``."""
    store = broker.retained
    far: list[str] = []
    for number, topic in enumerate(store.topics(body_of(topic_filter)), 1):
        found = store.get(topic)
        if isinstance(found, Message):
            outlet.put(found, min(qos, found.qos), True, stored=True)
        elif found is not None:
            far.append(topic)
        if number % STEP == 0:
            await asyncio.sleep(0)
        await outlet.room()
        if outlet.closed:
            return
    waiting = iter(far)

    async def fetch() -> None:
        for topic in waiting:
            found = store.get(topic)
            if found is not None and not isinstance(found, Message):
                found = await found()
            await outlet.room()
            if found is not None:
                outlet.put(found, min(qos, found.qos), True, stored=True)

    await asyncio.gather(*(fetch() for _ in range(min(FETCHES, len(far)))))
