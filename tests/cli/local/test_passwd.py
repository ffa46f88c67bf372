"""``gossamer passwd``."""

import pytest
from typer.testing import CliRunner

from gossamer.cli import app


@pytest.fixture
def run():
    return lambda *args, **options: CliRunner().invoke(app, ["passwd", *map(str, args)], **options)


def test_users_are_added_changed_and_deleted_and_no_password_is_shown(run, tmp_path):
    file = tmp_path / "users"
    result = run(file, "ann", input="secret\nsecret\n")
    assert result.exit_code == 0
    assert "secret" not in result.output
    first = file.read_text()
    assert first.startswith("ann:$argon2id$")
    assert run(file, "ann", "--stdin", input="other\n").exit_code == 0
    assert file.read_text() != first
    assert run(file, "ann", "--delete").exit_code == 0
    assert file.read_text() == ""


def test_an_empty_password_is_refused(run, tmp_path):
    assert run(tmp_path / "users", "ann", "--stdin", input="\n").exit_code == 2
    assert not (tmp_path / "users").exists()


def test_without_a_terminal_it_says_how_to_give_the_password(run, tmp_path):
    result = run(tmp_path / "users", "ann", input="once\n")
    assert result.exit_code == 2
    assert "--stdin" in result.output


def test_credentials_for_scram_are_another_kind_of_file(run, tmp_path):
    file = tmp_path / "scram"
    result = run("--scram", file, "ann", "--stdin", input="secret\n")
    assert result.exit_code == 0
    assert "added" in result.output
    assert file.read_text().startswith("ann:SCRAM-SHA-256$")
    assert "secret" not in file.read_text()
    plain = run(file, "bob", "--stdin", input="secret\n")
    assert plain.exit_code != 0
    assert run("--scram", file, "ann", "--delete").exit_code == 0
    assert file.read_text() == ""
