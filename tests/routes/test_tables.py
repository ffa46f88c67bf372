"""Routers over the real tables: a subscription here is a route there, and goes when its node goes."""

from contextlib import AsyncExitStack

from gossamer.routes import Router, SubscriptionOptions
from gossamer.supervisor import Supervisor
from tests.mnesia_like.hub import Host, Hub, host, until
from tests.routes.fakes import Client, Links, routes_child


class Place:
    """A node's router over its store."""

    def __init__(self, there: Host, router: Router) -> None:
        self.runtime = there.runtime
        self.router = router

    def peers(self, topic: bytes) -> list[str]:
        route = self.router.cache.get(topic) or self.router.resolve(topic)
        return [forwarder.peer for forwarder in route.peers]


async def place(stack: AsyncExitStack, hub: Hub, name: str, peers: list[str]) -> Place:
    there = await stack.enter_async_context(host(name, hub))
    table = await there.store.create_table("routes", replication="owned")
    router, links = Router(name), Links()
    await there.runtime.start(Supervisor, [routes_child(router, table, links)])
    for peer in peers:
        links.up(peer)
    return Place(there, router)


async def test_a_subscription_is_visible_everywhere_when_it_says_so():
    async with AsyncExitStack() as stack:
        hub = Hub()
        a = await place(stack, hub, "a", ["b"])
        b = await place(stack, hub, "b", ["a"])
        anna = Client("anna")
        assert b.peers(b"t/x") == []
        assert await a.router.visible(a.router.subscribe("t/+", anna, SubscriptionOptions()).seq)
        assert await a.router.visible(a.router.subscribe("$share/g/t/x", anna, SubscriptionOptions()).seq)
        assert b.peers(b"t/x") == ["a"]
        assert [group.others for group in b.router.resolve(b"t/x").groups] == [{"a": 1}]
        assert a.router.subscribe("t/+", Client("bert"), SubscriptionOptions()).seq is None
        assert a.router.unsubscribe_all(anna) == 2
        await until(lambda: b.router.stats()["groups"] == 0)
        assert b.peers(b"t/x") == ["a"], "bert is still there"


async def test_a_joiner_knows_what_was_subscribed_before():
    async with AsyncExitStack() as stack:
        hub = Hub()
        a = await place(stack, hub, "a", ["b"])
        anna = Client("anna")
        for n in range(500):
            a.router.subscribe(f"t/{n}", anna, SubscriptionOptions())
        b = await place(stack, hub, "b", ["a"])
        await until(lambda: b.router.stats()["filters"] == 500)
        assert b.peers(b"t/499") == ["a"]


async def test_routes_of_a_node_that_leaves_go():
    async with AsyncExitStack() as stack:
        hub = Hub()
        a = await place(stack, hub, "a", ["b"])
        b = await place(stack, hub, "b", ["a"])
        a.router.subscribe("#", Client("anna"), SubscriptionOptions())
        await until(lambda: b.peers(b"t") == ["a"])
        hub.part("a", left=True)
        b.router.node_down("a")
        assert b.peers(b"t") == []
        await until(lambda: b.router.stats()["filters"] == 0)
        assert b.router.stats()["nodes"] == 0


async def test_a_killed_owner_misses_nothing():
    async with AsyncExitStack() as stack:
        hub = Hub()
        a = await place(stack, hub, "a", ["b"])
        b = await place(stack, hub, "b", ["a"])
        anna = Client("anna")
        first = b.runtime.whereis("routes")
        b.runtime.exit(first, "kill")
        assert await a.router.visible(a.router.subscribe("t", anna, SubscriptionOptions()).seq)
        await until(lambda: b.runtime.whereis("routes") not in (None, first))
        await until(lambda: b.peers(b"t") == ["a"])
        assert await a.router.visible(a.router.subscribe("u", anna, SubscriptionOptions()).seq)
        assert b.peers(b"u") == ["a"]
