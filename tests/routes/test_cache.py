"""The route cache: bounded in topics and in what it keeps to find them again."""

from itertools import product

from gossamer.routes.cache import FILED_LIMIT, SHAPE_LIMIT, RouteCache
from gossamer.routes.topics import matches


def filled(limit: int = 256) -> RouteCache:
    cache = RouteCache(limit=limit)
    for words in product("abcd", repeat=4):
        cache.put("/".join(words).encode(), object())
    return cache


def test_a_wildcard_change_forgets_what_it_matches_and_nothing_else():
    for changed in ("a/#", "+/b/+/c", "#", "a/b/c/d", "+/+/+", "a/b/c/d/#", "$x/#"):
        cache = filled()
        before = [topic.decode() for topic in cache.routes]
        cache.changed(changed)
        assert [topic.decode() for topic in cache.routes] == [t for t in before if not matches(changed, t)]


def test_a_topic_that_comes_back_is_found_again():
    cache = RouteCache(limit=64)
    for _ in range(3000):
        cache.put(b"a/b", object())
        cache.changed("a/+")
        assert not cache.routes
        cache.put(b"a/b", object())
        cache.changed("+/b")
        assert not cache.routes
    assert len(cache._seen) < 2000


def test_many_shapes_cost_bounded_memory_and_never_a_wrong_route():
    cache = filled()
    for number, words in enumerate(product("x+", repeat=7)):
        changed = "/".join(words) + "/#"
        cache.changed("/".join(words[:4]) + ("/#" if number % 2 else ""))
        cache.changed(changed)
        assert sum(len(b.topics) for b in cache._buckets.values()) <= FILED_LIMIT * 256
        assert len(cache._buckets) <= SHAPE_LIMIT
        for words_ in product("abcd", repeat=4):
            topic = "/".join(words_).encode()
            if topic not in cache.routes:
                cache.put(topic, object())
    assert cache.counts["cleared"] > 0


def test_eviction_takes_the_oldest_and_makes_room():
    cache = RouteCache(limit=64)
    for number in range(65):
        cache.put(b"%d" % number, object())
    assert list(cache.routes) == [b"%d" % number for number in range(8, 65)]
    assert cache.counts["evicted"] == 8
