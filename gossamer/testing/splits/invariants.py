"""Invariants after all faults have ended, each with the text of its violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gossamer.mnesia_like import OwnedTable, SharedTable
from gossamer.testing.splits.world import TABLES, SplitWorld

_Rows = dict[object, object]


def violations(world: SplitWorld) -> Iterator[str]:
    """Yield one line per violation."""
    # One cluster, and every live subscriber routed from every node.
    yield from world.cluster.differences()
    yield from _tables_differ(world)
    yield from _rows_came_back(world)
    yield from _sides(world)
    yield from _restarts(world)
    yield from _raised_once(world)
    yield from _messages(world)
    yield from _kept(world)
    if world.survivors:
        yield from _survived(world, world.survivors)


def _tables_differ(world: SplitWorld) -> Iterator[str]:
    nodes = sorted(world.cluster.nodes.items())
    number, first = nodes[0]
    for name in first.store.tables():
        for other, node in nodes[1:]:
            if name not in node.store.tables():
                yield f"table {name}: node {number} has it, node {other} has not"
                continue
            for what, mine, theirs in _contents(first.store.table(name), node.store.table(name)):
                keys = sorted((k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k)), key=repr)
                if keys:
                    rows = ", ".join(f"{k!r}: {mine.get(k)!r} / {theirs.get(k)!r}" for k in keys[:3])
                    yield f"table {name} {what}: nodes {number} / {other} differ in {len(keys)} rows: {rows}"


def _contents(mine: object, theirs: object) -> Iterator[tuple[str, _Rows, _Rows]]:
    if isinstance(mine, SharedTable) and isinstance(theirs, SharedTable):
        yield "rows", dict(mine.rows()), dict(theirs.rows())
    elif isinstance(mine, OwnedTable) and isinstance(theirs, OwnedTable):
        for owner in sorted({*mine.owners(), *theirs.owners()}):
            yield f"of {owner}", dict(mine.rows_of(owner)), dict(theirs.rows_of(owner))


def _rows_came_back(world: SplitWorld) -> Iterator[str]:
    """Check that no older write replaces the latest one accepted by a node that never died."""
    unsure = world.died | world.removed()
    for (name, key), writes in sorted(world.writes.items(), key=repr):
        if TABLES[name] != "lww":
            continue
        # What a node took and did not pass on before it died, or was removed, may be lost.
        lasting = [write for write in writes if write.node not in unsure]
        if not lasting:
            continue
        last = max(lasting, key=lambda write: write.version)
        forgotten = any(not write.value and write.version >= last.version for write in writes)
        for number in sorted(world.cluster.nodes):
            table = world.table(number, name)
            version = table.core.versions.get(key, (0, ""))
            if version < last.version and not (version == (0, "") and forgotten):
                what = "was deleted and is back" if not last.value else f"was {last.value[0]!r}"
                yield f"table {name} {key!r}: {what}; node {number} holds {version}, last was {last.version}"


def _sides(world: SplitWorld) -> Iterator[str]:
    for number, episode in world.episodes():
        victims = {*episode.reloaded, *episode.skipped}
        if not episode.survivors:
            yield f"node {number}: {episode.plan} has no survivors"
        if both := victims.intersection(episode.survivors):
            yield f"node {number}: {episode.plan} has {sorted(both)} on both sides"
        if missing := set(episode.saw_down) - victims - set(episode.survivors):
            yield f"node {number}: {episode.plan} leaves out {sorted(missing)}"


def _restarts(world: SplitWorld) -> Iterator[str]:
    names = {number: world.cluster.nodes[number].name for number in world.stores}
    reloaded = {name for _, episode in world.episodes() for name in (*episode.reloaded, *episode.skipped)}
    for number in sorted(world.restarted_stores()):
        # A node that knew of the heal may have died before it could report it.
        told = bool(world.died) and world.cluster.nodes[number].healing.counts["reloads"] > 0
        if names[number] not in reloaded and not told:
            yield f"node {number} restarted its store, and no heal had it in the minority"
    for number, listener in sorted(world.listeners.items()):
        if not listener.connected:
            yield f"the client of node {number} was dropped"


def _raised_once(world: SplitWorld) -> Iterator[str]:
    """A split is an event once at each of a pair."""
    for number, node in sorted(world.cluster.nodes.items()):
        seen = Counter((raised.peer, raised.down_at) for raised in node.healing.raised)
        for (peer, at), count in sorted(seen.items()):
            if count > 1:
                yield f"node {number} raised its split from {peer} at {at:.3f} {count} times"


def _messages(world: SplitWorld) -> Iterator[str]:
    """Check that no acknowledged message is lost to a permanent client or session, and none of QoS 2
    doubled."""
    lasting = {number for number in world.nodes if world.lasts(number)}
    # What a node without a disc took for others ends with it.
    kept = {number for number in world.nodes if world.cluster.discs is not None or number not in world.died}
    for what, clients in (("client", world.listeners), ("session", world.sleepers)):
        for number, client in sorted(clients.items()):
            got = Counter(client.payloads())
            for flow in world.flows:
                if flow.qos == 2:
                    doubled = [payload for payload in flow.sent if got[payload] > 1]
                    if doubled:
                        yield (
                            f"the {what} of node {number}: {len(doubled)} doubled of {flow.topic}, "
                            f"first {doubled[0]!r}"
                        )
                if number in lasting and flow.node in kept:
                    lost = [payload for payload in flow.acknowledged if payload not in got]
                    if lost:
                        at = flow.acknowledged[lost[0]]
                        yield (
                            f"the {what} of node {number}: {len(lost)} lost of {flow.topic}, "
                            f"first {lost[0]!r} at {at:.3f}"
                        )


def _kept(world: SplitWorld) -> Iterator[str]:
    """Check that nothing is kept for a node that is up."""
    for number, node in sorted(world.cluster.nodes.items()):
        if node.broker.handoff is None:
            continue
        for peer, hint_log in sorted(node.broker.handoff.hint_store.by_peer.items()):
            if hint_log.messages or hint_log.state != "live":
                messages, state = hint_log.messages, hint_log.state
                yield f"node {number} keeps {messages} messages for {peer}, which is {state}"


def _survived(world: SplitWorld, numbers: list[int]) -> Iterator[str]:
    """The first heal had these survivors, and only the others reloaded."""
    wanted = {world.cluster.nodes[number].name for number in numbers}
    others = {node.name for node in world.cluster.nodes.values()} - wanted
    episode = next(iter(world.cluster.nodes[numbers[0]].healing.history), None)
    if episode is None:
        yield "nothing was healed"
    elif set(episode.survivors) != wanted or {*episode.reloaded, *episode.skipped} != others:
        yield f"survivors {episode.survivors}, reloaded {episode.reloaded}, expected {sorted(wanted)}"
