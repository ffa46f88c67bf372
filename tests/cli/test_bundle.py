"""``gossamer support-bundle``: one file for who helps, without secrets."""

import tarfile

import pytest
from api.linked import NAMES


@pytest.fixture
def bundle(served, run, tmp_path):
    def bundle(*options):
        path = tmp_path / "out.tar.gz"
        outcome = run("support-bundle", path, *options, "--api", served.url)
        assert outcome.code == 0, outcome.err
        with tarfile.open(path) as archive:
            return {
                name.partition("/")[2]: archive.extractfile(name).read().decode()
                for name in archive.getnames()
            }

    return bundle


def test_it_holds_what_nodes_tell_and_what_they_do_not(served, bundle):
    found = bundle()
    assert "gossamer" in found["version.txt"]
    # The faked nodes give no answer; that is told, and nothing stops.
    assert "no answer within" in found[f"{NAMES[1]}/config.error"]
    assert not any("clients" in name for name in found)


def test_a_node_that_is_silent_is_waited_for_once(served, bundle):
    asked = []

    class Noted(dict):
        def __contains__(self, name):
            asked.append(name)
            return super().__contains__(name)

    served.view.peers = Noted(served.view.peers)
    found = bundle()
    errors = {text for name, text in found.items() if name.startswith(f"{NAMES[1]}/")}
    assert len(errors) == 1
    assert sum(name.startswith(f"{NAMES[1]}/") for name in found) > 5
    assert asked.count(NAMES[1]) == 1


def test_names_of_clients_are_in_it_when_they_are_wanted(bundle):
    assert any(name.startswith(f"{NAMES[1]}/clients") for name in bundle("--clients"))


def test_the_end_of_a_log_is_taken(bundle, tmp_path):
    log = tmp_path / "node.log"
    log.write_text("old\n" * 2_000_000 + "the end")
    taken = bundle("--log", log)["logs/node.log"]
    assert taken.endswith("the end")
    assert len(taken) == 4 * 1024 * 1024


def test_where_it_cannot_be_written_is_said(served, run, tmp_path):
    refused = run("support-bundle", tmp_path / "none" / "x.tar.gz", "--api", served.url)
    assert refused.code == 5
    assert "name another file" in refused.err


def test_it_holds_the_metrics_of_the_nodes_that_answer(served, bundle):
    found = bundle()
    mine = [name for name in found if name.endswith(("metrics.txt", "metrics.error"))]
    assert f"{served.view.name}/metrics.txt" in mine
    assert "# HELP" in found[f"{served.view.name}/metrics.txt"]


def test_crash_reports_stand_beside_the_log_that_they_are_from(bundle, tmp_path):
    log = tmp_path / "node.log"
    log.write_text(
        '{"event": "node_running", "level": "info"}\n'
        '{"event": "crash", "label": "Meter", "reason": "ValueError: 3", "traceback": "Traceback …"}\n'
        "2026-01-01 [error    ] crash   label=Other reason=KeyError\n"
        "    Traceback (most recent call last):\n"
        "2026-01-01 [info     ] node_stopping\n"
    )
    crashes = bundle("--log", log)["crashes/node.log"].splitlines()
    assert len(crashes) == 3
    assert "Meter" in crashes[0]
    assert "Other" in crashes[1]
    assert "Traceback" in crashes[2]


def test_a_log_without_crashes_has_no_file_of_them(bundle, tmp_path):
    log = tmp_path / "node.log"
    log.write_text('{"event": "node_running"}\n')
    assert not [name for name in bundle("--log", log) if name.startswith("crashes/")]


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "x", "password": "hunter2 \\"quoted\\"", "topic": "a/b"}',
        '{"event": "x", "config": {"api_token": "hunter2", "topic": "a/b"}}',
        "2026-01-01 [info] x   password=hunter2 topic=a/b",
        "2026-01-01 [info] x   state='cookie=hunter2, topic=a/b'",
        "2026-01-01 [info] x   {'secret': 'hunter2', 'topic': 'a/b'}",
    ],
)
def test_a_field_that_is_called_as_a_secret_is_hidden(bundle, tmp_path, line):
    log = tmp_path / "node.log"
    log.write_text(f"{line}\n")
    taken = bundle("--log", log)["logs/node.log"]
    assert "hunter2" not in taken
    assert "***" in taken
    assert "a/b" in taken
