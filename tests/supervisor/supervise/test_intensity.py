"""The restart window, and the checks of specifications and flags."""

from __future__ import annotations

import pytest

from gossamer.supervisor import BadChildSpec, ChildSpec
from gossamer.supervisor.supervise.children import RestartWindow
from gossamer.supervisor.supervise.spec import Flags, check_children


async def start():
    return None


def test_window_forgets():
    """A restart older than the period is not counted; one exactly as old is."""
    window = RestartWindow(intensity=1, period=5)
    assert [window.admit(t) for t in (0, 5.1, 10)] == [True, True, False]
    window = RestartWindow(intensity=1, period=5)
    assert [window.admit(t) for t in (0, 5)] == [True, False]


def test_intensity_zero_admits_none():
    assert not RestartWindow(intensity=0, period=5).admit(0)


def test_defaults_are_otps():
    spec = ChildSpec("a", start)
    assert (spec.restart, spec.shutdown, spec.type, spec.significant) == ("permanent", 5.0, "worker", False)
    assert ChildSpec("b", start, type="supervisor").shutdown == "infinity"
    flags = Flags()
    assert (flags.strategy, flags.intensity, flags.period, flags.auto_shutdown) == (
        "one_for_one",
        1,
        5.0,
        "never",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": 3},
        {"restart": "always"},
        {"shutdown": -1},
        {"shutdown": "soon"},
        {"shutdown": True},
        {"type": "boss"},
        {"significant": True},
    ],
)
def test_a_bad_specification_names_the_key(wrong):
    (key,) = wrong
    with pytest.raises(BadChildSpec, match=rf"child 'a': {key} is"):
        ChildSpec(**{"id": "a", "start": start} | wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "one_for_some"},
        {"intensity": -1},
        {"intensity": 1.5},
        {"intensity": True},
        {"period": 0},
        {"period": "5s"},
        {"auto_shutdown": "yes"},
    ],
)
def test_a_bad_flag_names_the_key(wrong):
    (key,) = wrong
    with pytest.raises(BadChildSpec, match=rf"supervisor: {key} is"):
        Flags(**wrong)


def test_children_must_fit_the_supervisor():
    twice = [ChildSpec("a", start), ChildSpec("a", start)]
    with pytest.raises(BadChildSpec, match="id that no other child has"):
        check_children(Flags(), twice)
    significant = ChildSpec("a", start, restart="transient", significant=True)
    with pytest.raises(BadChildSpec, match="auto_shutdown"):
        check_children(Flags(), [significant])
    check_children(Flags(auto_shutdown="any_significant"), [significant])
    with pytest.raises(BadChildSpec, match="expected a ChildSpec"):
        check_children(Flags(), ["a"])
