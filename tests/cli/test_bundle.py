"""``gossamer support-bundle``: one file for who helps, without secrets."""

import os
import tarfile
from pathlib import Path

import pytest
from api.linked import NAMES

from gossamer.api.resources import node as node_resource
from gossamer.log_destination import LogDestination, identity_of, log_destination


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
    assert "# HELP" in found[f"{served.view.name}/metrics.txt"]
    # The faked nodes give no answer; that is told, and nothing stops.
    assert "no answer within" in found[f"{NAMES[1]}/config.error"]
    assert not any("clients" in name for name in found)
    listed = found["manifest.txt"].partition("\nLogs:")[0]
    assert {line.split()[-1] for line in listed.splitlines()} == set(found) - {"manifest.txt"}
    assert f"{NAMES[1]}: none: " in found["manifest.txt"]


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


@pytest.fixture
def with_log(bundle, tmp_path):
    """The bundle with a log that holds ``text``."""

    def with_log(text):
        (tmp_path / "node.log").write_text(text)
        return bundle("--log", tmp_path / "node.log")

    return with_log


def test_a_log_may_quote_what_the_rest_does_not_hold_and_that_is_said(served, run, tmp_path):
    (tmp_path / "node.log").write_text(
        '{"event": "crash", "handling": "Delivered(topic=\'a\', payload=b\'1\')"}\n'
    )
    bundle = ("support-bundle", tmp_path / "out.tar.gz", "--api", served.url)
    said = "logs may name clients and quote messages: look through it"
    assert said in run(*bundle, "--log", tmp_path / "node.log").err
    assert said not in run(*bundle).err


def test_the_end_of_a_log_is_taken(with_log):
    taken = with_log("old\n" * 2_000_000 + "the end")["logs/node.log"]
    assert taken.endswith("the end")
    assert len(taken) == 4 * 1024 * 1024


def test_crash_reports_stand_beside_the_log_that_they_are_from(with_log):
    found = with_log(
        '{"event": "node_running", "level": "info"}\n'
        '{"event": "crash", "label": "Meter", "reason": "ValueError: 3", "traceback": "Traceback …"}\n'
        "2026-01-01 [error    ] crash   label=Other reason=KeyError\n"
        "    Traceback (most recent call last):\n"
        "2026-01-01 [info     ] node_stopping\n"
    )
    meter, other, traceback = found["crashes/node.log"].splitlines()
    assert ("Meter" in meter, "Other" in other, "Traceback" in traceback) == (True, True, True)
    assert not any(name.startswith("crashes/") for name in with_log('{"event": "node_running"}\n'))


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
def test_a_field_that_is_called_as_a_secret_is_hidden(with_log, line):
    taken = with_log(f"{line}\n")["logs/node.log"]
    assert "hunter2" not in taken
    assert "***" in taken
    assert "a/b" in taken


@pytest.fixture
def logs_to(monkeypatch):
    """What the node that is served says of its log."""

    def logs_to(destination):
        monkeypatch.setattr(node_resource, "log_destination", lambda: destination)

    return logs_to


def written(path, text="x\n"):
    path.write_text(text)
    return LogDestination("file", str(path), identity_of(path.stat()))


def test_the_log_of_a_node_is_found_where_the_node_says(served, bundle, logs_to, tmp_path):
    logs_to(written(tmp_path / "any.log", '{"event": "crash", "password": "hunter2"}\n{"event": "on"}\n'))
    found = bundle()
    name = served.view.name
    assert found[f"logs/{name}.log"].splitlines() == [
        '{"event": "crash", "password": ***}',
        '{"event": "on"}',
    ]
    assert len(found[f"crashes/{name}.log"].splitlines()) == 1
    assert f"{name}: the last 4 MiB at most of {tmp_path / 'any.log'}" in found["manifest.txt"]


def test_a_file_of_the_same_path_on_another_machine_is_not_taken_for_it(served, bundle, logs_to, tmp_path):
    there = written(tmp_path / "node.log")
    logs_to(LogDestination("file", there.path, "another-boot:1:2"))
    found = bundle()
    assert f"logs/{served.view.name}.log" not in found
    assert f"{served.view.name}: none: {there.path} is on another machine" in found["manifest.txt"]


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        (LogDestination("journal"), "none: standard error is the journal: `journalctl _PID="),
        (LogDestination("pipe"), "none: standard error is a pipe: `docker logs`"),
        (LogDestination("terminal"), "none: standard error is a terminal"),
        (LogDestination("null"), "none: standard error is /dev/null"),
        (LogDestination("other"), "none: standard error is no file"),
        (LogDestination("file"), "none: the file that it logs to was deleted"),
    ],
)
def test_the_manifest_says_why_there_is_no_log(served, bundle, logs_to, destination, said):
    logs_to(destination)
    found = bundle()
    assert f"{served.view.name}: {said}" in found["manifest.txt"]
    assert "--log FILE adds a copy" in found["manifest.txt"]
    assert not [name for name in found if name.startswith("logs/")]


def test_where_the_log_goes_is_asked_of_the_system(tmp_path, monkeypatch):
    with (tmp_path / "log").open("w") as log:
        there = LogDestination("file", str(tmp_path / "log"), identity_of(os.fstat(log.fileno())))
        assert log_destination(log.fileno()) == there
        (tmp_path / "log").unlink()
        assert log_destination(log.fileno()) == LogDestination("file")
    reading, writing = os.pipe()
    try:
        assert log_destination(writing) == LogDestination("pipe")
        status = os.fstat(writing)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        assert log_destination(writing) == LogDestination("journal")
    finally:
        os.close(reading)
        os.close(writing)
    with Path(os.devnull).open("w") as nothing:
        assert log_destination(nothing.fileno()) == LogDestination("null")
    leading, following = os.openpty()
    try:
        assert log_destination(following) == LogDestination("terminal")
    finally:
        os.close(leading)
        os.close(following)
    assert log_destination(following) == LogDestination("null")
