"""The HTTP API of a node: ``ApiServer`` serves whatever implements ``NodeView``."""

from gossamer.api.app import make_app
from gossamer.api.model import (
    ClientInfo,
    ClusterInfo,
    ClusterNode,
    FoldedInfo,
    HintInfo,
    KeyRequest,
    KeysInfo,
    MemberInfo,
    Metric,
    NodeInfo,
    NodeStatus,
    ProcessInfo,
    Readiness,
    RouteInfo,
    Sample,
    SubscriptionInfo,
    TableInfo,
    TopicInfo,
    TopicMatch,
    TraceEvent,
)
from gossamer.api.server import ApiServer, PortTakenError
from gossamer.api.view import NodeView

__all__ = [
    "ApiServer",
    "ClientInfo",
    "ClusterInfo",
    "ClusterNode",
    "FoldedInfo",
    "HintInfo",
    "KeyRequest",
    "KeysInfo",
    "MemberInfo",
    "Metric",
    "NodeInfo",
    "NodeStatus",
    "NodeView",
    "PortTakenError",
    "ProcessInfo",
    "Readiness",
    "RouteInfo",
    "Sample",
    "SubscriptionInfo",
    "TableInfo",
    "TopicInfo",
    "TopicMatch",
    "TraceEvent",
    "make_app",
]
