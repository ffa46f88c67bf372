"""What a fault of one direction means for the gates of both nodes."""

from gossamer.drill.stage.backend import LinkFault, requests_of


def test_a_one_way_cut_is_told_to_both_ends() -> None:
    assert requests_of([LinkFault("a", "b", cut=True)]) == {
        "a": [{"peer": "b", "direction": "out", "cut": True}],
        "b": [{"peer": "a", "direction": "in", "cut": True}],
    }


def test_what_slows_or_loses_is_told_to_the_sender_alone() -> None:
    """Told to both, datagrams would be late twice."""
    slow = LinkFault("a", "b", delay=0.2, jitter=0.1, loss=0.05)
    assert requests_of([slow]) == {
        "a": [{"peer": "b", "direction": "out", "delay": 0.2, "jitter": 0.1, "loss": 0.05}]
    }


def test_no_faults_are_no_requests() -> None:
    assert requests_of([]) == {}
