"""The configuration's section about gossip: every number an operator may set, and why it is what it is.

memberlist's LAN defaults find a killed member of thirty in about nine seconds. These are tuned to four, and
restore the safety by trying harder inside each probe: a ping is repeated six times, two rounds of helpers
are asked, and a stream is opened, before a member is suspected. At 5 % packet loss one probe fails wrongly
with a probability below 1e-9, so the suspicion timeout does not have to absorb lost packets, only stalls.

Rule: a suspicion never ends before ``suspicion_floor``, however small the cluster, so that a member that
lives can always refute it. A host refuses connections only where no process of the member lives, so a round
trip and the answers to a last probe, ``suspicion_refused``, are enough there.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gossamer.config.section import Positive, Section
from gossamer.config.units import Duration, PositiveDuration

__all__ = ["GossipConfig"]


class GossipConfig(Section):
    """How members are probed, suspected and told about."""

    probe_interval: PositiveDuration = 0.5
    """How long a probe may take, and the unit of suspicion timeouts."""
    probes_per_interval: Positive = 2
    """How many members are probed in each interval."""
    probe_timeout: PositiveDuration = 0.25
    """Without an answer for so long, a probe is repeated and others are asked to help."""
    indirect_checks: Annotated[int, Field(ge=0)] = 3
    """How many members are asked to help."""
    suspicion_mult: Annotated[float, Field(gt=0)] = 2.0
    """How long a suspicion lasts, in probe intervals, before it grows with the logarithm of the members."""
    suspicion_floor: PositiveDuration = 1.5
    """No suspicion ends sooner, so that a member that lives can refute it."""
    suspicion_refused: PositiveDuration = 0.5
    """The same for one whose host refuses connections to its port: its process is gone."""
    suspicion_max_mult: Annotated[float, Field(ge=1)] = 6.0
    """How many times longer it lasts while nobody confirms it."""
    suspicion_confirmations: Annotated[int, Field(ge=0)] = 2
    """How many others must agree for it to end at its soonest."""
    awareness_max: Positive = 8
    """How many times slower a node that finds itself slow may probe."""
    retransmit_mult: Positive = 4
    """How often news is repeated, before it grows with the logarithm of the members."""
    gossip_interval: PositiveDuration = 0.2
    """How often news is sent on top of what rides on probes."""
    gossip_fanout: Positive = 4
    """How many members get it each time."""
    sync_interval: PositiveDuration = 30.0
    """How often the whole view is exchanged with one other member."""
    reconnect_interval: PositiveDuration = 2.0
    """How often a member that is down is tried again."""
    down_retention: PositiveDuration = 86400.0
    """How long a member that is down is remembered."""
    left_retention: PositiveDuration = 86400.0
    """How long a member that left is remembered."""
    leave_delay: Duration = 1.0
    """How long a leaving node goes on gossiping, so that its leave spreads."""
    mtu: Annotated[int, Field(ge=1024, le=65_000)] = 1400
    """Largest datagram."""
