"""What the configuration says of routing reaches the router."""

from typing import get_args

import pytest

from gossamer.config import Config, SharedStrategy
from gossamer.errors import UsageError
from gossamer.node import Node
from gossamer.routes import InvalidTopicFilter, InvalidTopicName, SubscriptionOptions
from gossamer.routes.strategies import STRATEGIES
from tests.routes.fakes import Client


def router_of(**mqtt):
    config = Config.model_validate({"mqtt": mqtt})
    return Node(config, creation=1, cookie="secret").router


def test_limits_on_levels_and_length_are_the_configured_ones():
    router = router_of(limits={"max_topic_levels": 3, "max_topic_bytes": 20})
    router.subscribe("a/b/c", Client("anna"), SubscriptionOptions())
    router.resolve(b"a/b/c")
    for wrong in ("a/b/c/d", "a" * 21, "é" * 11):
        with pytest.raises(InvalidTopicFilter, match=r"expected (at most 3 levels|1 to 20 bytes)"):
            router.subscribe(wrong, Client("anna"), SubscriptionOptions())
        with pytest.raises(InvalidTopicName):
            router.resolve(wrong.encode())


def test_a_length_beyond_the_protocol_is_refused():
    with pytest.raises((ValueError, UsageError)):
        router_of(limits={"max_topic_bytes": 65_536})


def test_strategies_are_those_of_the_configuration_and_differ():
    assert set(STRATEGIES) == set(get_args(SharedStrategy))
    assert len(set(STRATEGIES.values())) == len(STRATEGIES)


@pytest.mark.parametrize("strategy", get_args(SharedStrategy))
def test_every_strategy_may_be_configured(strategy):
    router = router_of(shared_subscription_strategy=strategy)
    router.subscribe("$share/g/t", Client("anna"), SubscriptionOptions())
    assert router.resolve(b"t").groups[0]._strategy is STRATEGIES[strategy]


def test_forwarding_is_sync_unless_said_otherwise():
    assert router_of()._forwarding.sync
    assert not router_of(forwarding="async")._forwarding.sync
