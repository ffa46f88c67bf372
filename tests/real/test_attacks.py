"""What ``./script/attack`` tries is held by a real cluster, and what breaks it is said."""

from contextlib import nullcontext

import pytest

from real import attacks


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with attacks.fresh(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_a_cluster_holds(cluster, tmp_path, name):
    try:
        assert attacks.ATTACKS[name](cluster, tmp_path) == ""
    except PermissionError as error:
        pytest.skip(str(error))


def test_an_attack_by_tests_is_held_if_they_pass(tmp_path):
    test = tmp_path / "test_it.py"
    for text, held in (("def test_it(): pass", True), ("def test_it(): assert 0", False), ("", False)):
        test.write_text(text)
        assert (attacks.by_tests("", str(test))(None, tmp_path) == "") == held


@pytest.mark.parametrize(
    ("names", "code", "lines"),
    [
        (["sound"], 0, ["held   sound: An attack."]),
        (
            [],
            1,
            ["held   sound: An attack.", "broken weak: it is let in", "left out unable: no rights"],
        ),
        (["unheard"], 2, []),
    ],
)
def test_a_line_tells_of_each_attack_and_the_exit_code_of_all(monkeypatch, capsys, names, code, lines):
    def sound(cluster, directory):
        """An attack."""
        return ""

    def unable(cluster, directory):
        raise PermissionError("no rights")

    monkeypatch.setattr(attacks, "Cluster", lambda *_, **__: nullcontext())
    monkeypatch.setattr(attacks, "ATTACKS", {"sound": sound, "weak": lambda *_: "it is let in"})
    monkeypatch.setattr(attacks, "TESTED", {"unable": unable})
    assert attacks.main(names) == code
    assert capsys.readouterr().out.splitlines() == lines
