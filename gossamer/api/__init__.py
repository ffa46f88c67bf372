"""The HTTP API of a node: ``ApiServer`` serves whatever implements ``NodeView``."""

from gossamer.api.alarms import OWN_ALARMS, AlarmInfo, AlarmOrder, Alarms
from gossamer.api.app import make_app
from gossamer.api.http.limits import Limits
from gossamer.api.http.tokens import TOKENS, BadTokenError, NoSuchTokenError, Principal, Role, Tokens
from gossamer.api.jobs.findings import is_audit
from gossamer.api.jobs.processes import Programs, runs_spec
from gossamer.api.jobs.runs import Runs
from gossamer.api.metrics.exposition import Exposition
from gossamer.api.metrics.process import ProcessNumbers
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
    RouteFindings,
    RouteInfo,
    Sample,
    SubscriptionInfo,
    TableDigest,
    TableInfo,
    TopicInfo,
    TopicMatch,
    TraceEvent,
)
from gossamer.api.peers.client_search import ClientSearch, sort_key
from gossamer.api.peers.paging import Listed, Walked
from gossamer.api.peers.requests import REQUEST, Answer, Ask, More, PeerSilentError, Relay
from gossamer.api.resources.audits import spark_lacks
from gossamer.api.resources.backup import BackupInfo
from gossamer.api.resources.healing import (
    HealEpisode,
    HealingView,
    HealPlanInfo,
    HealRows,
    HealSettings,
    HealStatusInfo,
    PartitionInfo,
    QuarantinedRow,
)
from gossamer.api.resources.history import NodeHistory
from gossamer.api.resources.live import Pulse, Seen
from gossamer.api.resources.messages import RetainedInfo
from gossamer.api.resources.recording import RecordingInfo, RecordingSettings, RecordingView
from gossamer.api.server import ApiServer, PortTakenError
from gossamer.api.view import NodeView, TopicRow

__all__ = [
    "OWN_ALARMS",
    "REQUEST",
    "TOKENS",
    "AlarmInfo",
    "AlarmOrder",
    "Alarms",
    "Answer",
    "ApiServer",
    "Ask",
    "BackupInfo",
    "BadTokenError",
    "ClientInfo",
    "ClientSearch",
    "ClusterInfo",
    "ClusterNode",
    "Exposition",
    "FoldedInfo",
    "HealEpisode",
    "HealPlanInfo",
    "HealRows",
    "HealSettings",
    "HealStatusInfo",
    "HealingView",
    "HintInfo",
    "KeyRequest",
    "KeysInfo",
    "Limits",
    "Listed",
    "MemberInfo",
    "Metric",
    "More",
    "NoSuchTokenError",
    "NodeHistory",
    "NodeInfo",
    "NodeStatus",
    "NodeView",
    "PartitionInfo",
    "PeerSilentError",
    "PortTakenError",
    "Principal",
    "ProcessInfo",
    "ProcessNumbers",
    "Programs",
    "Pulse",
    "QuarantinedRow",
    "Readiness",
    "RecordingInfo",
    "RecordingSettings",
    "RecordingView",
    "Relay",
    "RetainedInfo",
    "Role",
    "RouteFindings",
    "RouteInfo",
    "Runs",
    "Sample",
    "Seen",
    "SubscriptionInfo",
    "TableDigest",
    "TableInfo",
    "Tokens",
    "TopicInfo",
    "TopicMatch",
    "TopicRow",
    "TraceEvent",
    "Walked",
    "is_audit",
    "make_app",
    "runs_spec",
    "sort_key",
    "spark_lacks",
]
