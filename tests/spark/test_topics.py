"""Matching by joins finds exactly what the router's own rule finds."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.routes import matches
from gossamer.spark.analyses.topics import match

LEVEL = st.sampled_from(["", "a", "b", "$x", "site"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw):
    levels = draw(st.lists(st.one_of(LEVEL, st.just("+")), min_size=0, max_size=4))
    if draw(st.booleans()) or not "/".join(levels):
        levels.append("#")
    return "/".join(levels)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(topics=st.sets(TOPIC, min_size=1, max_size=40), wanted=st.sets(filters(), min_size=1, max_size=40))
def test_every_pair_that_matches_is_found_once(engine, topics, wanted):
    of = {"topic": topics, "filter": wanted}
    given = [engine.table(f"{name} STRING", [(text,) for text in texts]) for name, texts in of.items()]
    found = engine.rows(
        match(*(f"SELECT {name} FROM {table}" for name, table in zip(of, given, strict=True)))
    )
    pairs = sorted((row["topic"], row["filter"]) for row in found)
    assert pairs == sorted((t, w) for t in topics for w in wanted if matches(w, t))
