"""What an operator may set is what the state machine reads."""

from __future__ import annotations

from dataclasses import fields

from gossamer.config import Config, GossipConfig
from gossamer.gossip import GossipSettings

INTERNAL = {"gossip_to_dead", "lag_threshold", "stream_timeout", "max_frame", "max_members", "max_metadata"}
"""Numbers that are no operator's business."""


def test_every_setting_is_a_key_of_the_configuration_or_internal() -> None:
    names = {field.name for field in fields(GossipSettings)}
    assert set(GossipConfig.model_fields) == names - INTERNAL
    assert names >= INTERNAL


def test_the_defaults_of_the_configuration_are_those_of_the_settings() -> None:
    assert GossipSettings(**Config().cluster.gossip.model_dump()) == GossipSettings()
