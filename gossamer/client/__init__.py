"""Python clients of a cluster: publish, subscribe, and talk to its actors, without being a member."""

from gossamer.client.blocking import BlockingClient, BlockingSubscription
from gossamer.client.client import Client
from gossamer.client.keeper import NotAttachedError, RefusedError, Target, TargetError, targets_of
from gossamer.client.subscription import Delivered, Gap, Subscription

__all__ = [
    "BlockingClient",
    "BlockingSubscription",
    "Client",
    "Delivered",
    "Gap",
    "NotAttachedError",
    "RefusedError",
    "Subscription",
    "Target",
    "TargetError",
    "targets_of",
]
