"""The built console, as files: of the sources beside it, light, and with nothing from elsewhere."""

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILT = ROOT / "gossamer" / "api" / "console"
WEIGHT = 500_000
"""Bytes of a page with all that it loads."""
FIRST = 100_000
"""Bytes of what the first paint waits for."""


def test_the_built_files_are_those_of_the_sources():
    digest = hashlib.sha256()
    folder = ROOT / "console"
    names = ["package.json", "build.mjs", "tsconfig.json"]
    names += [f"src/{path.name}" for path in sorted((folder / "src").iterdir(), key=lambda path: path.name)]
    for name in names:
        digest.update(f"{name}\0".encode() + (folder / name).read_bytes() + b"\0")
    expected = (BUILT / "built-from").read_text().strip()
    assert digest.hexdigest() == expected, "run `npm ci && npm run build` in console/"


def test_all_of_the_console_weighs_less_than_half_a_megabyte():
    assert sum(path.stat().st_size for path in BUILT.iterdir()) < WEIGHT


def test_what_the_first_paint_waits_for_is_a_third_of_that():
    shared = re.findall(r"""from\s?["']\./(chunk-[^"']+)["']""", (BUILT / "app.js").read_text())
    first = ("index.html", "app.js", "style.css", "icon.svg", *shared)
    assert shared
    assert sum((BUILT / name).stat().st_size for name in first) < FIRST


async def test_its_policy_lets_nothing_in_from_elsewhere_but_websockets(client):
    policy = (await client.get("/", follow_redirects=True)).headers["content-security-policy"]
    allowed = {name: set(sources) for name, *sources in map(str.split, policy.split(";"))}
    assert allowed["default-src"] == {"'none'"}
    assert allowed.pop("connect-src") == {"'self'", "ws:", "wss:"}
    assert set().union(*allowed.values()) == {"'self'", "'none'"}


@pytest.mark.parametrize("name", ["index.html", "style.css"])
def test_nothing_is_loaded_from_elsewhere(name):
    text = (BUILT / name).read_text()
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?\s*(?:https?:)?//""", text) == []
