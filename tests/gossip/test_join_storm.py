"""A thousand nodes that ask one real member to let them in, all in the same instant."""

from __future__ import annotations

import asyncio
import time

from gossamer.gossip import Keyring, MemberMetadata, cluster_key
from gossamer.gossip.frames import AskingStream, frame
from gossamer.gossip.keyring import answer_to, at_address
from gossamer.gossip.wire import Alive, Record, Sync, compound, decode, encode
from tests.gossip.test_server import Peer

THOUSAND = 1000


class Joiner:
    """As much of a node as it takes to ask."""

    def __init__(self, number: int, keyring: Keyring) -> None:
        self.id = f"{number:016x}"
        self.keyring = keyring
        self.tries = 0
        metadata = MemberMetadata(f"joiner{number}", creation=1, start_time=1.0, ports={"mqtt": 1883})
        # Nobody is there: the member is asked only, and nothing leaves this machine.
        self.host = f"127.77.{number // 250}.{number % 250 + 1}"
        me = Alive(metadata.name, self.id, self.host, 7946, 1, metadata)
        self.question = compound([encode(Sync("join", [Record(me, 0, 0.0)]))])

    async def join(self, address: tuple[str, int], wall: float) -> Sync:
        """Ask until it is answered."""
        while True:
            self.tries += 1
            loop = asyncio.get_running_loop()
            try:
                transport, stream = await loop.create_connection(
                    lambda: AskingStream(max_frame=1 << 20), *address, local_addr=(self.host, 0)
                )
            except ConnectionError:
                continue
            try:
                question = self.keyring.seal(self.id, self.tries, wall, self.question, to=at_address(address))
                transport.write(frame(question))
                packet = await stream.answer
            finally:
                transport.abort()
            if packet:
                (answer,) = decode(self.keyring.open(packet, own=(answer_to(self.id, self.tries),)).body)
                assert isinstance(answer, Sync)
                return answer
            await asyncio.sleep(0.1)


async def test_a_thousand_joins_at_once_are_all_let_in_and_cost_the_member_no_more_than_they_must() -> None:
    keyring = Keyring([cluster_key("cookie")], env="test")
    seed = Peer("seed")
    await seed.start()
    joiners = [Joiner(number, keyring) for number in range(1, THOUSAND + 1)]
    answers = await asyncio.gather(*(joiner.join(seed.address, time.time()) for joiner in joiners))
    known = {member.name for member in seed.view.members()}
    assert known >= {f"joiner{number}" for number in range(1, THOUSAND + 1)}
    assert all(len(answer.records) >= 1 for answer in answers)
    # Whole tables go to a few each second; the rest get a sample, and ask those whom they find in it.
    assert sum(len(answer.records) for answer in answers) < THOUSAND * 250
    assert seed.view.counters["rejected.malformed"] == 0
    # More streams than it answers at a time are hung up on, and come again.
    tries = sum(joiner.tries for joiner in joiners)
    assert tries - THOUSAND >= seed.view.counters["rejected.busy"] > 0
    await seed.runtime.stop()
