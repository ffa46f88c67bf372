"""Topic matching: the filter index, compiled and in Python, beside a trie of dictionaries and paho's matcher.

    python bench/routes.py [filters ...]           (default 100000 1000000; paho up to 100000)

The workload: topics ``site/{0..999}/dev/{0..9999}/metric``; of the filters, which may repeat with another
subscriber, nine in ten are such topics, and the tenth has ``+`` or ``#`` in one of four places. All numbers
come from one linear congruential generator, so every implementation, in any language, can have the same.
``uniform`` topics are drawn from all ten million, ``existing`` ones are topics of plain filters. Each
contestant runs in a process of its own; times are CPU time; bytes are growth of resident memory while the
filters go in.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from paho.mqtt.matcher import MQTTMatcher

from gossamer.routes import FilterIndex, Router, SubscriptionOptions, filter_index, kernel_name
from gossamer.routes.index.index import RouteIndex

TOPICS = 200_000


def generator(seed: int) -> Iterator[int]:
    while True:
        seed = (seed * 1103515245 + 12345) % 2147483648
        yield seed >> 8


def filters(count: int, seed: int = 42) -> Iterator[str]:
    draw = generator(seed)
    for i in range(count):
        site, device = next(draw) % 1000, next(draw) % 10000
        if i % 10:
            yield f"site/{site}/dev/{device}/metric"
        else:
            yield (
                f"site/+/dev/{device}/metric",
                f"site/{site}/+/{device}/metric",
                f"site/{site}/dev/{device}/#",
                f"site/{site}/dev/{device}/+",
            )[i // 10 % 4]


def uniform_topics(count: int, seed: int = 7) -> list[str]:
    draw = generator(seed)
    return [f"site/{next(draw) % 1000}/dev/{next(draw) % 10000}/metric" for _ in range(count)]


def existing_topics(all_filters: list[str], count: int) -> list[str]:
    plain = [topic_filter for i, topic_filter in enumerate(all_filters) if i % 10]
    return [plain[k * 7919 % len(plain)] for k in range(count)]


def resident() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


class DictTrie:
    """The plainest trie of dictionaries: a level to its node, subscribers under None."""

    def __init__(self) -> None:
        self.root: dict[Any, Any] = {}

    def add(self, topic_filter: str, number: int) -> None:
        node = self.root
        for word in topic_filter.split("/"):
            node = node.setdefault(word, {})
        node.setdefault(None, set()).add(number)

    def remove(self, topic_filter: str, number: int) -> None:
        path = [self.root]
        words = topic_filter.split("/")
        for word in words:
            path.append(path[-1][word])
        path[-1][None].discard(number)
        if not path[-1][None]:
            del path.pop()[None]
            for parent, word in zip(reversed(path), reversed(words), strict=False):
                if parent[word]:
                    break
                del parent[word]

    def match(self, topic: str) -> list[int]:
        found: list[int] = []
        nodes = [self.root]
        for word in topic.split("/"):
            below = []
            for node in nodes:
                if (child := node.get("#")) is not None:
                    found.extend(child[None])
                if (child := node.get(word)) is not None:
                    below.append(child)
                if (child := node.get("+")) is not None:
                    below.append(child)
            nodes = below
        for node in nodes:
            if None in node:
                found.extend(node[None])
            if (child := node.get("#")) is not None:
                found.extend(child[None])
        return found


Contestant = tuple[Callable[[str, int], Any], Callable[[str, int], Any], Callable[[str], Any]]


def dict_trie() -> Contestant:
    trie = DictTrie()
    return trie.add, trie.remove, trie.match


def paho() -> Contestant:
    matcher = MQTTMatcher()

    def add(topic_filter: str, number: int) -> None:
        try:
            matcher[topic_filter].append(number)
        except KeyError:
            matcher[topic_filter] = [number]

    def remove(topic_filter: str, number: int) -> None:
        numbers = matcher[topic_filter]
        numbers.remove(number)
        if not numbers:
            del matcher[topic_filter]

    return add, remove, lambda topic: [n for numbers in matcher.iter_match(topic) for n in numbers]


def index() -> Contestant:
    return index_of(filter_index())


def twin() -> Contestant:
    return index_of(FilterIndex())


def index_of(table: FilterIndex[Any]) -> Contestant:

    def add(topic_filter: str, number: int) -> None:
        value = table.get(topic_filter)
        if value is None:
            table.put(topic_filter, number)
        elif type(value) is int:
            table.put(topic_filter, [value, number])
        else:
            value.append(number)

    def remove(topic_filter: str, number: int) -> None:
        value = table.get(topic_filter)
        if type(value) is int:
            table.remove(topic_filter)
        else:
            value.remove(number)
            if not value:
                table.remove(topic_filter)

    return add, remove, table.match


def remote_routes() -> Contestant:
    """The route index as a node fills it from the rows of eight others; hits are filters."""
    table = RouteIndex()
    return (
        lambda topic_filter, number: table.set_bits(topic_filter, 1 << (number & 7), 1 << (number & 7)),
        lambda topic_filter, number: table.set_bits(topic_filter, 1 << (number & 7), 0),
        table.match,
    )


def cached() -> Contestant:
    """The router with its cache, as a publish meets it; topics are repeated until all are cached.

    Filters go out while the cache is full.
    """
    router, subscribe, unsubscribe = routed()
    get, resolve = router.cache.get, router.resolve

    def match(topic: bytes) -> Any:
        return get(topic) or resolve(topic)

    return subscribe, unsubscribe, match  # type: ignore[return-value]


def uncached() -> Contestant:
    """The router when no topic comes twice: a match, and a route made of it and put into the cache."""
    router, subscribe, unsubscribe = routed()
    return subscribe, unsubscribe, router.resolve  # type: ignore[return-value]


def routed() -> tuple[Router, Callable[[str, int], Any], Callable[[str, int], Any]]:
    class Subscriber:
        def deliver(self, message: object, delivery: object) -> None: ...

    router = Router("bench", cache_limit=2 * TOPICS)
    people = [Subscriber() for _ in range(100)]
    options = SubscriptionOptions()
    return (
        router,
        lambda topic_filter, number: router.subscribe(topic_filter, people[number % 100], options),
        lambda topic_filter, number: router.unsubscribe(topic_filter, people[number % 100]),
    )


CONTESTANTS: dict[str, Callable[[], Contestant]] = {
    "dict trie": dict_trie,
    "paho": paho,
    "gossamer index": index,
    "gossamer index, in Python": twin,
    "gossamer remote routes": remote_routes,
    "gossamer router, uncached": uncached,
    "gossamer router, cached": cached,
}


def hits(found: Any) -> int:
    if not isinstance(found, list):
        return len(found.deliveries)
    return sum(len(value) if type(value) is list else 1 for value in found)


def run(name: str, count: int) -> None:
    wanted = list(filters(count))
    uniform: list[Any] = uniform_topics(TOPICS)
    existing: list[Any] = existing_topics(wanted, TOPICS)
    as_bytes = "router" in name
    if as_bytes:
        uniform = [topic.encode() for topic in uniform]
        existing = [topic.encode() for topic in existing]
    clock = time.process_time
    # The texts are made anew, as they would be when they come from the network, and belong to the index.
    gc.collect()
    before = resident()
    add, remove, match = CONTESTANTS[name]()
    spent = 0.0
    for start in range(0, count, 10_000):
        part = [wanted[i].encode().decode() for i in range(start, min(start + 10_000, count))]
        begin = clock()
        for number, topic_filter in enumerate(part, start):
            add(topic_filter, number)
        spent += clock() - begin
    size = resident() - before
    insert = count / spent
    rates = []
    for topics in (uniform, existing):
        if as_bytes:
            for topic in topics:
                match(topic)
        best = 0.0
        for _ in range(3):
            begin = clock()
            for topic in topics:
                match(topic)
            best = max(best, len(topics) / (clock() - begin))
        rates.append(f"{best / 1000:8.0f} k ({sum(hits(match(t)) for t in topics[:20000]) / 20000:.2f})")
    begin = clock()
    for number, topic_filter in enumerate(wanted):
        remove(topic_filter, number)
    delete = count / (clock() - begin)
    print(
        f"{name:25} {count:>9,} {insert / 1000:>8.0f} k {delete / 1000:>8.0f} k "
        f"{rates[0]:>17} {rates[1]:>17} {size / count:>8.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("filters", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--only", action="append", choices=CONTESTANTS)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run(options.one[0], int(options.one[1]))
        return
    print(f"kernel: {kernel_name()}")
    print(
        f"{'':25} {'filters':>9} {'insert/s':>10} {'delete/s':>10} "
        f"{'uniform/s (hits)':>17} {'existing/s (hits)':>17} {'B/filter':>8}"
    )
    for count in options.filters:
        for name in options.only or CONTESTANTS:
            if name == "paho" and count > 100_000 and not options.only:
                continue
            subprocess.run([sys.executable, __file__, "--one", name, str(count)], check=True)


if __name__ == "__main__":
    main()
