"""Every number of the gossip layer, with the reasons for the ones that differ from the field's.

memberlist's LAN defaults find a killed member of thirty in about nine seconds. These are tuned to four, and
buy back the safety by trying harder inside each probe: a ping is repeated six times, two rounds of helpers
are asked, and a stream is opened, before anybody is suspected. At 5 % packet loss one probe fails wrongly
with a probability below 1e-9, so the suspicion timeout does not have to absorb lost packets, only stalls.

Rule: a suspicion never ends before ``suspicion_floor``, however small the cluster, so that a member that
lives can always refute. Its host refuses connections only where no process of it lives, so a round trip and
the answers to a last probe, ``suspicion_refused``, are enough there.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gossamer.errors import UsageError
from gossamer.gossip.member import MemberMetadata

__all__ = ["GossipSettings", "InvalidSettingError"]

_DAY = 24 * 3600.0


class InvalidSettingError(UsageError):
    """A gossip setting cannot work."""

    def __init__(self, *, name: str, got: object, expected: str) -> None:
        self.name = name
        self.got = got
        self.expected = expected
        super().__init__(f"gossip setting {name}: got {got!r}, expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipSettings:
    """Times in seconds, sizes in bytes."""

    probe_interval: float = 0.5
    """How long a probe may take, times (health score + 1); the unit of suspicion timeouts."""
    probes_per_interval: int = 2
    """Probes begun in each interval, evenly spread. One would find half of the dead a second later."""
    probe_timeout: float = 0.25
    """After this without an answer the probe escalates: again, by helpers, by stream."""
    indirect_checks: int = 3
    """Helpers asked in each of the two rounds."""
    suspicion_mult: float = 2.0
    suspicion_floor: float = 1.5
    suspicion_refused: float = 0.5
    """The floor where the member's host refuses connections to its port: its process is gone."""
    suspicion_max_mult: float = 6.0
    suspicion_confirmations: int = 2
    """Independent confirmers that shrink a suspicion to its minimum."""
    awareness_max: int = 8
    retransmit_mult: int = 4
    gossip_interval: float = 0.2
    gossip_fanout: int = 4
    gossip_to_dead: float = 30.0
    """A down member still receives gossip for so long, so that it can refute."""
    sync_interval: float = 30.0
    reconnect_interval: float = 2.0
    """How often one of the down members is tried again."""
    down_retention: float = _DAY
    """A down member is tried, and remembered, for so long."""
    left_retention: float = _DAY
    """The tombstone of a member that left."""
    leave_delay: float = 1.0
    """A leaving member keeps gossiping for so long, so that its leave spreads."""
    lag_threshold: float = 0.15
    """A timer that fires later than this says that this process, not its peers, is slow."""
    stream_timeout: float = 3.0
    mtu: int = 1400
    """Largest datagram, envelope included."""
    max_frame: int = 8 * 1024 * 1024
    """Largest stream frame."""
    max_members: int = 10_000
    max_metadata: int = 512

    def __post_init__(self) -> None:
        if not 0 < self.probe_timeout < self.probe_interval:
            raise InvalidSettingError(
                name="probe_timeout",
                got=self.probe_timeout,
                expected=f"more than 0 and less than probe_interval ({self.probe_interval})",
            )
        if self.mtu < 512 + self.max_metadata:
            raise InvalidSettingError(
                name="mtu",
                got=self.mtu,
                expected=f"at least {512 + self.max_metadata}, one full member record",
            )
        if self.probes_per_interval < 1:
            raise InvalidSettingError(
                name="probes_per_interval", got=self.probes_per_interval, expected="at least 1"
            )
        for name in ("gossip_interval", "reconnect_interval", "sync_interval", "stream_timeout"):
            if getattr(self, name) <= 0:
                raise InvalidSettingError(name=name, got=getattr(self, name), expected="a positive duration")

    def check_metadata(self, metadata: MemberMetadata) -> None:
        """Raises InvalidSettingError where it is larger than a packet has room for."""
        size = len(msgspec.msgpack.encode(metadata))
        if size > self.max_metadata:
            raise InvalidSettingError(
                name="metadata",
                got=f"{size} bytes encoded",
                expected=f"at most {self.max_metadata}; name fewer services or ports",
            )
