"""The route cache: bounded in topics and in what it keeps to find them again."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.routes.index import cache as cache_module
from gossamer.routes.index.book import TopicBook
from gossamer.routes.index.cache import FILED_LIMIT, SHAPE_LIMIT, RouteCache
from gossamer.routes.kernel import KERNEL_REASON, compiled_book
from gossamer.routes.topics import matches
from tests.routes.strategies import filters, names

NO_KERNEL = pytest.mark.skipif("not built" in KERNEL_REASON, reason=KERNEL_REASON)


@pytest.fixture(autouse=True, params=["python", pytest.param("compiled", marks=NO_KERNEL)])
def _book(request, monkeypatch):
    """Both kinds of book."""
    made = TopicBook if request.param == "python" else compiled_book
    monkeypatch.setattr(cache_module, "topic_book", made)


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
        kept = cache._book.stats()
        assert kept["filed"] <= FILED_LIMIT * 256
        assert kept["shapes"] <= SHAPE_LIMIT
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


@NO_KERNEL
def test_the_two_books_name_the_same_topics():
    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(
            st.one_of(names().map(str.encode), filters(), st.sampled_from(["reset", "clear"])), max_size=80
        )
    )
    def holds(steps):
        books, seen = (TopicBook(6, 40), compiled_book(6, 40)), []
        for step in steps:
            if isinstance(step, bytes):
                seen.append(step)
            elif step in ("reset", "clear"):
                seen = [] if step == "clear" else seen[::2]
                for book in books:
                    getattr(book, step)()
            elif "+" in step or "#" in step:
                one, two = (book.take(step, seen) for book in books)
                assert (one is None) is (two is None)
                if one is None or two is None:
                    for book in books:
                        book.clear()
                else:
                    assert sorted(one) == sorted(two)
                    assert all(matches(step, topic.decode()) for topic in one)
            assert books[0].stats() == books[1].stats()

    holds()


@NO_KERNEL
def test_the_compiled_book_refuses_what_is_no_list_of_topics():
    book = compiled_book(4, 100)
    for seen in ((b"a",), ["a"], None):
        with pytest.raises(TypeError):
            book.take("+", seen)
    with pytest.raises(TypeError):
        book.take("+")
    assert book.take("+", [b"a"]) == [b"a"]
    assert book.take("+", []) == []
