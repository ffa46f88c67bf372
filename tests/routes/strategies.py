"""What the property tests draw: names and filters over a small alphabet, so that they meet often."""

from hypothesis import strategies as st

WORDS = ["", "a", "b", "c", "$x"]

names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> str:
    words = draw(st.lists(st.sampled_from([*WORDS, "+"]), max_size=5))
    if draw(st.booleans()) or not "/".join(words):
        words.append("#")
    return "/".join(words)
