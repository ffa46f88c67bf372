"""What the property tests draw: names and filters over a small alphabet, so that they meet often."""

from hypothesis import strategies as st

WORDS = ["", "a", "b", "c", "$x"]
FEW = ["a", "b", "$x"]


def names(words: list[str] = WORDS, most: int = 5) -> st.SearchStrategy[str]:
    levels = st.lists(st.sampled_from(words), min_size=1, max_size=most)
    return levels.map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn, words: list[str] = WORDS, most: int = 5) -> str:
    levels = draw(st.lists(st.sampled_from([*words, "+"]), max_size=most))
    if draw(st.booleans()) or not "/".join(levels):
        levels.append("#")
    return "/".join(levels)
