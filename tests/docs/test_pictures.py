"""Pictures of the documents: every explanation has one, and everybody can read it."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"
IMAGE = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)")
EXPLANATIONS = sorted((DOCS / "design").glob("*.md"))
DRAWN = [*sorted((DOCS / "pictures").glob("*.svg")), DOCS / "overview.svg"]
"""By hand; the others under ``docs/`` are charts that benches draw."""
SMALLEST = 12


def images_of(page):
    return [(found["words"], found["target"]) for found in IMAGE.finditer(page.read_text())]


@pytest.mark.parametrize("page", EXPLANATIONS, ids=lambda page: page.stem)
def test_every_explanation_has_a_picture(page):
    assert images_of(page), f"{page.name} explains without a picture"


def test_pictures_are_there_and_say_what_they_show():
    for page in [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]:
        for words, target in images_of(page):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}"
            assert len(words.split()) > 2, f"{page.name}: a reader who cannot see {target} gets {words!r}"


def test_every_picture_is_shown_somewhere():
    shown = {(page.parent / target).resolve() for page in DOCS.rglob("*.md") for _, target in images_of(page)}
    assert [path.name for path in DRAWN if path not in shown] == []


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.svg")), ids=lambda path: path.stem)
def test_a_screen_reader_gets_a_title_and_a_description(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    assert (root.findtext(f"{SVG}title") or "").strip()
    assert len((root.findtext(f"{SVG}desc") or "").split()) > 5


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_a_drawing_follows_light_and_dark_and_loads_nothing(path):
    text = path.read_text()
    root = ElementTree.fromstring(text)
    style = root.findtext(f"{SVG}style") or ""
    assert "prefers-color-scheme: dark" in style
    assert not re.search(r"@import|url\((?!#)|<script|href=\"(?!#)", text)
    sizes = [int(size) for size in re.findall(r"(?:font: |font-size: )(\d+)px", style)]
    assert sizes
    assert min(sizes) >= SMALLEST
    assert "font-size" not in text.replace(style, "")


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_a_drawing_takes_its_colours_from_its_two_palettes(path):
    """A colour written into a shape would stay as it is in the dark."""
    root = ElementTree.parse(path).getroot()
    style = root.findtext(f"{SVG}style") or ""
    light, dark = (
        set(re.findall(r"(--[\w-]+): #", part)) for part in style.split("prefers-color-scheme: dark")
    )
    assert light == dark
    assert set(re.findall(r"var\((--[\w-]+)\)", style)) <= light
    for shape in root.iter():
        for attribute in ("fill", "stroke", "style", "color"):
            assert shape.get(attribute, "none") == "none", f"{path.name}: {ElementTree.tostring(shape)!r}"
