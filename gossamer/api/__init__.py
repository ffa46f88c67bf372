"""The HTTP API of a node: ``ApiServer`` serves ``make_app`` of what implements ``NodeView``.

Names are imported when they are first used: the command checks an order by the rules that a node has for it,
without loading what serves requests.
"""

from typing import TYPE_CHECKING

from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.api.app import make_app
    from gossamer.api.http.access import Callers, ip_of
    from gossamer.api.http.limits import Limits
    from gossamer.api.http.tokens import (
        TOKENS,
        BadTokenError,
        Principal,
        Role,
        RoleTooLowError,
        Tokens,
    )
    from gossamer.api.jobs.drill_plan import DrillRequest, check_here, plan_of
    from gossamer.api.jobs.processes import Programs, runs_spec
    from gossamer.api.jobs.runs import Runs
    from gossamer.api.metrics import Exposition, ProcessNumbers
    from gossamer.api.peers.paging import ClientSearch, Key, Listed, ListOrder, Walked, sort_key
    from gossamer.api.peers.requests import REQUEST, Ask, More, PeerAnswer, PeerRequests, PeerSilentError
    from gossamer.api.resources.audits import is_audit, spark_lacks
    from gossamer.api.resources.healing import OWN_ALARMS, Alarms
    from gossamer.api.server import ApiServer
    from gossamer.api.view import (
        ConsensusView,
        EventLogView,
        HealingView,
        Metric,
        NodeView,
        QueuesView,
        RecordingView,
        TopicRow,
    )

__all__ = [
    "OWN_ALARMS",
    "REQUEST",
    "TOKENS",
    "Alarms",
    "ApiServer",
    "Ask",
    "BadTokenError",
    "Callers",
    "ClientSearch",
    "ConsensusView",
    "DrillRequest",
    "EventLogView",
    "Exposition",
    "HealingView",
    "Key",
    "Limits",
    "ListOrder",
    "Listed",
    "Metric",
    "More",
    "NodeView",
    "PeerAnswer",
    "PeerRequests",
    "PeerSilentError",
    "Principal",
    "ProcessNumbers",
    "Programs",
    "QueuesView",
    "RecordingView",
    "Role",
    "RoleTooLowError",
    "Runs",
    "Tokens",
    "TopicRow",
    "Walked",
    "check_here",
    "ip_of",
    "is_audit",
    "make_app",
    "plan_of",
    "runs_spec",
    "sort_key",
    "spark_lacks",
]

__getattr__, __dir__ = lazy(__name__)
