"""Python clients of a cluster: publish, subscribe, and talk to its actors, without being a member."""

from gossamer.client.blocking import BlockingClient, BlockingSubscription
from gossamer.client.blocking_queue import BlockingBatch, BlockingConsumer, BlockingDelivery, BlockingQueue
from gossamer.client.client import Client
from gossamer.client.delivery import Batch, Delivery, RejectJob, RetryJob
from gossamer.client.keeper import NotAttachedError, RefusedError, Target, TargetError, targets_of
from gossamer.client.queue import ClientQueue, QueueConsumer
from gossamer.client.subscription import Delivered, Gap, Subscription

__all__ = [
    "Batch",
    "BlockingBatch",
    "BlockingClient",
    "BlockingConsumer",
    "BlockingDelivery",
    "BlockingQueue",
    "BlockingSubscription",
    "Client",
    "ClientQueue",
    "Delivered",
    "Delivery",
    "Gap",
    "NotAttachedError",
    "QueueConsumer",
    "RefusedError",
    "RejectJob",
    "RetryJob",
    "Subscription",
    "Target",
    "TargetError",
    "targets_of",
]
