"""What ``./script/attack`` tries is held by a real cluster, and what breaks it is said."""

from contextlib import nullcontext

import pytest

from real import attacks


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_a_cluster_holds(cluster, tmp_path, name):
    assert attacks.ATTACKS[name](cluster, tmp_path) == ""


@pytest.mark.parametrize(
    ("names", "code", "lines"),
    [
        (["sound"], 0, ["held   sound: An attack."]),
        ([], 1, ["held   sound: An attack.", "broken weak: it is let in"]),
        (["unheard"], 2, []),
    ],
)
def test_a_line_tells_of_each_attack_and_the_exit_code_of_all(monkeypatch, capsys, names, code, lines):
    def sound(cluster, directory):
        """An attack."""
        return ""

    monkeypatch.setattr(attacks, "Cluster", lambda *_, **__: nullcontext())
    monkeypatch.setattr(attacks, "ATTACKS", {"sound": sound, "weak": lambda *_: "it is let in"})
    assert attacks.main(names) == code
    assert capsys.readouterr().out.splitlines() == lines
