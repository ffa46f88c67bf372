"""``gossamer tokens``, against an API that is really there."""

import pytest

from gossamer.api import Role
from gossamer.cli.commands.access import ROLES


def test_a_token_is_made_used_listed_and_taken_back(served, run, monkeypatch, tmp_path):
    made = run("tokens", "create", "ci", "--role", "operator", "--expires", "2d", "--api", served.url)
    assert made.code == 0
    token = made.out.strip()
    assert token.startswith("gsm_")
    assert "operator, in 1d" in made.err
    (row,) = run("tokens", "list", "--json", "--api", served.url).json["items"]
    assert (row["name"], row["role"], row["created_by"]) == ("ci", "operator", "loopback")

    monkeypatch.setenv("GOSSAMER_TOKEN", token)
    assert run("cluster", "leave", "--api", served.url).code == 0
    refused = run("tokens", "list", "--api", served.url)
    assert refused.code == 5
    assert "takes the role admin; ci is operator" in refused.err

    monkeypatch.delenv("GOSSAMER_TOKEN")
    assert "let in no more" in run("tokens", "revoke", row["id"], "--api", served.url).err
    path = tmp_path / "token"
    path.write_text(token)
    monkeypatch.setenv("GOSSAMER_TOKEN_FILE", str(path))
    dead = run("nodes", "--api", served.url)
    assert dead.code == 5
    assert "unknown or revoked" in dead.err


@pytest.mark.parametrize("expires", ["soon", "-1d", ""])
def test_a_wrong_time_to_live_says_what_is_right(served, run, expires):
    refused = run("tokens", "create", "ci", "--expires", expires, "--api", served.url)
    assert refused.code == 2
    assert "such as" in refused.err


def test_roles_are_those_of_the_api():
    assert tuple(Role) == ROLES


def test_a_missing_token_file_is_named(served, run, monkeypatch, tmp_path):
    monkeypatch.setenv("GOSSAMER_TOKEN_FILE", str(tmp_path / "none"))
    refused = run("nodes", "--api", served.url)
    assert refused.code == 5
    assert "tokens create" in refused.err
