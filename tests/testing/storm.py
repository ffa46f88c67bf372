"""A scenario that uses everything of the simulated network, for comparing digests."""

import asyncio

from gossamer.testing import LOSSY, LinkQuality, SimNetwork

from .peers import Box, Recorder

HOSTS = [f"10.0.0.{n}" for n in range(1, 6)]


async def storm(sim: SimNetwork) -> int:
    """Gossip and streams among five hosts under cuts, crashes and bad weather; how much arrived."""
    sim.weather(LOSSY)
    rng = sim.rng("storm")
    boxes = []
    received = []

    def accept():
        received.append(Recorder())
        return received[-1]

    for host in HOSTS:
        boxes.append((await sim.host(host).open_datagram(Box, (host, 7946)))[1])
        await sim.host(host).listen(accept, (host, 1883))

    async def talk(host):
        for _ in range(20):
            target = rng.choice(HOSTS)
            try:
                async with asyncio.timeout(5):
                    transport, _ = await sim.host(host).connect(Recorder, (target, 1883))
            except OSError:
                await asyncio.sleep(1)
                continue
            transport.write(rng.randbytes(rng.randrange(50_000)))
            await asyncio.sleep(rng.random())
            transport.close() if rng.random() < 0.7 else transport.abort()

    talkers = [asyncio.create_task(talk(host)) for host in HOSTS]
    for step in range(100):
        for box in boxes:
            box.transport.sendto(rng.randbytes(rng.randrange(1, 1000)), (rng.choice(HOSTS), 7946))
        if step == 20:
            sim.partition(HOSTS[:2], HOSTS[2:])
        if step == 30:
            sim.crash(HOSTS[4], rng.choice(["kill", "reset", "silence"]))
            sim.shape(HOSTS[0], HOSTS[1], LinkQuality(latency=0.2, bandwidth=50_000), one_way=True)
        if step == 50:
            sim.heal()
            await sim.restart(HOSTS[4]).listen(accept, (HOSTS[4], 1883))
        await asyncio.sleep(rng.random() / 4)
    await asyncio.gather(*talkers)
    await asyncio.sleep(60)
    return sum(len(box.got) for box in boxes) + sum(len(one.data) for one in received)
