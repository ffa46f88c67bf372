"""What the site adds to the pages in ``docs/``, as hooks of MkDocs.

The pages are written to be read in the repository, too, where a link may lead to any file of it.

Rules: 1. A file outside ``docs/`` that a page links to becomes a page of the site, below ``source/``; a
directory, the list of its files.  2. A page that the navigation does not name stands behind the others of its
kind, so that writing one is enough.  3. Directives to the tests (``<!-- not run: … -->``) are not shown.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "source"
KINDS = {"deploy": "How-to", "guide": "How-to", "reference": "Reference"}
"""Directory of ``docs/`` to section; what is elsewhere explains something."""
OTHERS = "Explanation"

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_DIRECTIVE = re.compile(r"^ *<!-- (?:(?:not run|cluster): [^\n]*?|output|later) -->\n", re.MULTILINE)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "sh", ".c": "c"}
_LANGUAGES |= {".service": "ini", ".toml": "toml", ".ts": "typescript"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages for files outside ``docs/`` that somebody links to, and places for all pages."""
    todo = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for file in files.documentation_pages():
        todo += _linked(file.content_string, _home(file.src_uri))
    while todo:
        path = todo.pop()
        uri = _uri(path)
        if files.get_file_from_path(uri) is not None:
            continue
        text = _shown(path)
        todo += _linked(text, _home(uri)) if path.suffix == ".md" or path.is_dir() else []
        files.append(File.generated(config, uri, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    _complete(config.nav, files)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links lead to pages of the site; directives go."""
    home = _home(page.file.src_uri)

    def lead(found: re.Match[str]) -> str:
        path = _outside(found["target"], home)
        if path is None:
            return found[0]
        target = posixpath.relpath(_uri(path), posixpath.dirname(page.file.src_uri) or ".")
        return f"[{found['text']}]({target}{found['anchor'] or ''})"

    return _LINK.sub(lead, _DIRECTIVE.sub("", markdown))


def _home(uri: str) -> Path:
    """The directory that the links of a page start from."""
    path = PurePosixPath(uri)
    if path.parts[0] != SOURCE:
        return ROOT / "docs" / path.parent
    return ROOT.joinpath(*path.parts[1:]).parent


def _linked(text: str, home: Path) -> list[Path]:
    return [path for found in _LINK.finditer(text) if (path := _outside(found["target"], home))]


def _outside(target: str, home: Path) -> Path | None:
    """What ``target`` names, where that exists and MkDocs would not find it."""
    if re.match(r"[a-z]+:|/", target):
        return None
    path = (home / target).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        return None
    known = path.is_relative_to(ROOT / "docs") and home.is_relative_to(ROOT / "docs")
    return None if known and path.is_file() else path


def _uri(path: Path) -> str:
    """Where the site has ``path``."""
    inside = path.relative_to(ROOT).as_posix()
    if inside == "README.md":
        return "index.md"
    if inside.startswith("docs/") and path.is_file():
        return inside.removeprefix("docs/")
    if path.is_dir():
        return f"{SOURCE}/{inside}/index.md"
    return f"{SOURCE}/{inside}" if path.suffix == ".md" else f"{SOURCE}/{inside}.md"


def _shown(path: Path) -> str:
    """A page for a file or a directory; only pages that are written as such are found by the search."""
    inside = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    head = f"---\nsearch: {{exclude: true}}\n---\n\n# {inside}\n\n"
    if path.is_dir():
        listed = subprocess.run(
            ["git", "ls-files", "--", "."],  # noqa: S607 - whichever git there is
            cwd=path,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines()
        names = listed or sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
        return head + "".join(f"- [{name}]({name})\n" for name in names if _is_text(path / name))
    text = path.read_text(encoding="utf-8")
    fence = "`" * max(4, max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    return f"{head}{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


def _is_text(path: Path) -> bool:
    return path.is_file() and path.suffix not in {".png", ".svg", ".bin"}


def _complete(nav: list[Any] | None, files: Files) -> None:
    if nav is None:
        return
    named = set(_uris(nav))
    sections = {title: below for entry in nav for title, below in entry.items() if isinstance(below, list)}
    for file in sorted(files.documentation_pages(), key=lambda file: file.src_uri):
        if file.src_uri not in named and file.inclusion is InclusionLevel.INCLUDED:
            sections[KINDS.get(file.src_uri.partition("/")[0], OTHERS)].append(file.src_uri)


def _uris(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    inside = entry.values() if isinstance(entry, dict) else entry
    return [uri for part in inside for uri in _uris(part)]
