"""Who is held up goes on when the hold ends, whatever becomes of the others."""

from gossamer.mqtt.flow.backpressure import Hold


def test_those_that_are_held_are_told_in_order_though_one_of_them_fails():
    hold, told = Hold(), []

    def fail():
        told.append("fails")
        raise RuntimeError("its link is gone")

    hold.then(lambda: told.append("a"))
    hold.then(fail)
    hold.then(lambda: told.append("b"))
    hold.release()
    assert told == ["a", "fails", "b"]
    hold.release()
    assert told == ["a", "fails", "b"], "each once"
