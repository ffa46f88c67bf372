"""The route owner under a supervisor: it feeds the router, dies, comes back, and nobody notices."""

import asyncio
from functools import partial

from gossamer.routes import RouteOwner, Router, SubscriptionOptions
from gossamer.supervisor import ChildSpec, Supervisor, call, exit, guarded, whereis  # noqa: A004
from tests.routes.fakes import Client, Links, Table, Turn, routes_child
from tests.supervisor.harness import settle


class GuardedTable(Table):
    """Calls back as the process that subscribed, as the real table does."""

    def subscribe_batches(self, callback, own=True):
        self.callbacks.append(guarded(callback))


def parts() -> tuple[Router, GuardedTable, Links]:
    return Router("a", schedule=Turn()), GuardedTable("a"), Links()


def peers_of(router: Router, topic: bytes) -> list[str]:
    return [peer.peer for peer in (router.cache.get(topic) or router.resolve(topic)).peers]


async def test_rows_that_were_there_before_are_taken_in_before_anything_else(rt):
    router, table, links = parts()
    table.put("b", {"t/+": 1, "u": 1})
    router.subscribe("early", Client("anna"), SubscriptionOptions())
    table.write("stale", 1)
    await Supervisor.start_link([routes_child(router, table, links)])
    links.up("b")
    await settle()
    assert peers_of(router, b"t/x") == ["b"]
    assert dict(table.rows_of("a")) == {"early": 1}


async def test_a_killed_owner_comes_back_and_repairs_what_it_missed(rt):
    router, table, links = parts()
    anna = Client("anna")
    await Supervisor.start_link([routes_child(router, table, links)])
    links.up("b")
    table.put("b", {"old": 1})
    router.subscribe("mine", anna, SubscriptionOptions(qos=1))
    cache = router.cache
    owner = whereis("routes")
    exit(owner, "kill")
    table.put("b", {"new": 1}, ["old"])  # nobody listens
    router.subscribe("meanwhile", anna, SubscriptionOptions())
    await settle()
    assert whereis("routes") not in (None, owner)
    assert router.cache is cache
    assert (peers_of(router, b"old"), peers_of(router, b"new")) == ([], ["b"])
    assert [d.subscriber for d in router.resolve(b"mine").deliveries] == [anna]
    assert set(table.rows_of("a")) == {"mine", "meanwhile"}
    table.put("b", {"after": 1})
    assert peers_of(router, b"after") == ["b"], "the new owner listens"


async def test_rows_that_cannot_be_taken_in_end_the_owner_and_not_the_writer(rt):
    router, table, links = parts()
    await Supervisor.start_link([routes_child(router, table, links)])
    links.up("b")
    owner = whereis("routes")
    apply, router.apply = router.apply, None
    table.callbacks[:] = [guarded(lambda change: 1 / 0, entry=rt.table[owner])]
    table.put("b", {"t": 1})
    router.apply = apply
    await settle()
    assert whereis("routes") not in (None, owner)
    assert peers_of(router, b"t") == ["b"]


async def test_verification_can_be_asked_for_with_and_without_repair(rt):
    router, table, links = parts()
    owner = await RouteOwner.start_link(router, table, links)
    await settle()
    links.up("b")
    table.put("b", {f"t/{n}": 1 for n in range(2000)})
    table.owned["b"]["lost"] = 1
    found = await call(owner, "check")
    assert (found.missing_routes, found.wrong) == (1, 1)
    assert found.checked >= 4000
    assert (await call(owner, "verify")).missing_routes == 1
    assert (await call(owner, "check")).wrong == 0
    assert peers_of(router, b"lost") == ["b"]


async def test_verification_goes_on_in_the_background(rt):
    router, table, links = parts()
    child = ChildSpec("routes", partial(RouteOwner.start_link, router, table, links, pause=10.0))
    await Supervisor.start_link([child])
    await settle()
    links.up("b")
    for round_ in range(3):
        table.owned.setdefault("b", {})[f"lost{round_}"] = 1
        await asyncio.sleep(11)
        assert peers_of(router, b"lost%d" % round_) == ["b"]
    assert router.stats()["found_wrong"] == 3
