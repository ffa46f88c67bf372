"""The front door: what others may use, and nothing by accident."""

from __future__ import annotations

import gc
import types

import gossamer.supervisor as front
from gossamer.supervisor import tune_collector


def test_the_front_door_is_what_all_says():
    public = {
        name
        for name, value in vars(front).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(front.__all__)
    assert len(front.__all__) == len(set(front.__all__))


def test_every_public_thing_is_documented():
    bare = [
        name for name in front.__all__ if callable(getattr(front, name)) and not getattr(front, name).__doc__
    ]
    assert not bare


def test_the_collector_is_tuned_and_can_be_put_back():
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        tune_collector()
        assert gc.get_threshold()[0] > 700
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
