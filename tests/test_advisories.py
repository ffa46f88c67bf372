"""Pinned packages with a known weakness are found in records of OSV, without a network."""

import json
import re
import zipfile

import pytest

from script.advisories import CONSTRAINTS, main, pins_of

PINS = "# made for a test\nfast.API==1.4.0\nother[extra]==2.0 ; python_version > '3'\n"


def record(*events, name="Fast_API", ecosystem="PyPI", kind="ECOSYSTEM", versions=(), **facts):
    ranges = [{"type": kind, "events": list(events)}] if events else []
    package = {"ecosystem": ecosystem, "name": name}
    affected = {"package": package, "ranges": ranges, "versions": list(versions)}
    made = {
        "id": "PYSEC-1",
        "modified": "2026-01-02T00:00:00Z",
        "summary": "it leaks",
        "affected": [affected],
    }
    return made | facts


@pytest.fixture
def check(tmp_path, capsys):
    """The exit code for these records, and what was said."""

    def run(*records, archive=False):
        (tmp_path / "constraints.txt").write_text(PINS)
        folder = tmp_path / "records"
        folder.mkdir()
        (folder / "README").write_text("no record")
        for number, one in enumerate(records):
            (folder / f"{number}.json").write_text(json.dumps(one))
        if archive:
            with zipfile.ZipFile(tmp_path / "all.zip", "w") as made:
                for file in folder.iterdir():
                    made.write(file, file.name)
        code = main([str(tmp_path / "all.zip" if archive else folder), str(tmp_path / "constraints.txt")])
        return code, capsys.readouterr()

    return run


@pytest.mark.parametrize("archive", [False, True])
def test_a_weakness_is_a_line_that_names_what_fixes_it(check, archive):
    weak = record({"introduced": "0"}, {"fixed": "1.4.1"}, aliases=["CVE-1"])
    code, said = check(weak, record({"introduced": "0"}, {"fixed": "1.9"}, name="unused"), archive=archive)
    assert code == 1
    assert said.out.splitlines() == [
        "fast-api==1.4.0: PYSEC-1 = CVE-1: it leaks (fixed in 1.4.1)",
        "2 pins, 2 records, the newest of 2026-01-02T00:00:00Z: 1 weaknesses",
    ]


@pytest.mark.parametrize(
    ("events", "affected"),
    [
        ([{"introduced": "0"}], True),
        ([{"introduced": "1.4.0"}, {"fixed": "1.4.1"}], True),
        ([{"introduced": "1.4"}, {"last_affected": "1.4"}], True),
        ([{"introduced": "0"}, {"last_affected": "1.3.99"}], False),
        ([{"introduced": "0"}, {"fixed": "1.4"}], False),
        ([{"introduced": "1.4.1"}], False),
        # Compared as text, 1.10 would come before 1.4.
        ([{"introduced": "0"}, {"fixed": "1.10"}], True),
        # In any order: fixed, and broken again.
        ([{"fixed": "1.2"}, {"introduced": "1.3"}, {"introduced": "0"}], True),
        ([{"introduced": "2.0"}, {"fixed": "1.2"}, {"introduced": "0"}, {"fixed": "2.1"}], False),
        # Nobody can tell: a person has to look.
        ([{"introduced": "0"}, {"fixed": "some-day"}], True),
    ],
)
def test_ranges_are_read_as_versions(check, events, affected):
    assert check(record(*events))[0] == affected


@pytest.mark.parametrize(
    ("one", "affected"),
    [
        (record(versions=["1.3", "very old", "1.4"]), True),
        (record(versions=["1.3"]), False),
        (record({"introduced": "0"}, withdrawn="2026-01-03T00:00:00Z"), False),
        (record({"introduced": "0"}, ecosystem="npm"), False),
        (record({"introduced": "0"}, kind="GIT"), False),
        (record() | {"affected": None}, False),
        (record({"introduced": "0"}, name="OTHER"), True),
    ],
)
def test_a_record_counts_for_versions_it_lists_of_that_package_unless_taken_back(check, one, affected):
    assert check(one)[0] == affected


@pytest.mark.parametrize("records", [(), ("no record",), ({"id": "PYSEC-1"},)])
def test_files_that_say_nothing_are_no_good_news(check, records):
    code, said = check(*records)
    assert (code, said.out) == (2, "")
    assert "expected" in said.err


def test_the_pins_of_this_repository_are_read():
    text = CONSTRAINTS.read_text()
    assert len(pins_of(text)) == len(re.findall(r"^\w", text, re.M)) > 100
