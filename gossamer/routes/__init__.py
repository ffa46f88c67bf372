"""Routes of topics: rules, index, cache, the replicated ``routes`` table, and forwarding to other nodes.

``Router`` is the interface to the rest of a node; ``RouteOwner`` is the process behind it. ``topics`` has the
rules of names and filters, ``filters`` the index, ``cache`` the routes of topics, ``forwarder`` the batches
for a peer.

Names are imported when they are first used, so that the command can report its kernel without loading the
distribution.
"""

from typing import TYPE_CHECKING

from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.routes.audit.verify import Findings
    from gossamer.routes.delivery import Delivery, SubscriptionOptions
    from gossamer.routes.exclusive import ExclusiveTakenError
    from gossamer.routes.forwarding.forwarder import Forwarder
    from gossamer.routes.index.filters import FilterIndex
    from gossamer.routes.kernel import KERNEL_REASON, filter_index, kernel_name, kernel_part
    from gossamer.routes.owner import RouteOwner
    from gossamer.routes.resolver import Route
    from gossamer.routes.router import Router
    from gossamer.routes.shared import Group
    from gossamer.routes.subscriptions import Subscribed
    from gossamer.routes.topics import (
        RESERVED_TOPIC,
        InvalidTopicFilter,
        InvalidTopicName,
        SharedFilter,
        TopicError,
        TopicLimits,
        body_of,
        is_reserved,
        is_wildcard,
        matches,
        parse_filter,
        parse_name,
        split_shared,
    )

__all__ = [
    "KERNEL_REASON",
    "RESERVED_TOPIC",
    "Delivery",
    "ExclusiveTakenError",
    "FilterIndex",
    "Findings",
    "Forwarder",
    "Group",
    "InvalidTopicFilter",
    "InvalidTopicName",
    "Route",
    "RouteOwner",
    "Router",
    "SharedFilter",
    "Subscribed",
    "SubscriptionOptions",
    "TopicError",
    "TopicLimits",
    "body_of",
    "filter_index",
    "is_reserved",
    "is_wildcard",
    "kernel_name",
    "kernel_part",
    "matches",
    "parse_filter",
    "parse_name",
    "split_shared",
]

__getattr__, __dir__ = lazy(__name__)
