"""Network of a drill in namespaces, as names, addresses and input lines for iproute2; pure.

::

    hub ── bridge 10.77.0.254 ─┬─ cable 10.77.0.1, node 1
    (the drill itself)         ├─ cable 10.77.0.2, node 2
                               └─ …

Everything is in namespaces of its own, including the drill, which moves into the hub while it runs: no
interface, address or rule is added to the machine's own, so none can interfere or be left there.

- A **cut** is a routing rule in the namespace of the receiver, which drops packets from the sender silently;
  in the sender's namespace, or with an interface down, the kernel would report an error to the sender.
  The hub has an address that no rule names, so the drill reaches every node through every cut.
- **Delay and loss** are netem's, in the namespace of the sender, behind a class for each receiver. If the
  kernel has no netem, nftables can drop packets at the receiver, and nothing can delay them.

Names contain the creating process and its start time, since pids are reused: leftovers of a dead process can
be distinguished from namespaces in use. Rejected: interfaces in the machine's own namespace, which its
firewall sees and which a killed drill would leave behind; iptables, which needs more of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gossamer.drill.stage.backend import LinkFault

HUB = "hub"
CABLE = "cable"
"""Interface name of a node."""

_BRIDGE = "bridge"
_NET = "10.77.0"
_HUB_HOST = 254
_FIRST_CUT = 10
"""Base priority of the rules that drop packets of a node; below that of local addresses."""
_LOCAL = 1000
_BEHIND = f"dev {CABLE} parent 1: protocol ip prio 1 u32"
_NAME = re.compile(r"gossamer-drill-(\d+)-(\d+)-(\d+)-(hub|node\d+)")


@dataclass(frozen=True, slots=True)
class Maker:
    """Process that created namespaces; ``started`` in ticks since boot."""

    pid: int
    started: int


def maker_of(space: str) -> Maker | None:
    """Return the creator of a namespace; None if it is not a drill's."""
    found = _NAME.fullmatch(space)
    return None if found is None else Maker(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class NetPlan:
    """Namespaces and addresses of ``nodes`` nodes, numbered from 1; ``serial`` distinguishes drills of a
    process."""

    maker: Maker
    serial: int
    nodes: int

    def space(self, node: int) -> str:
        """Return the namespace of a node; 0: the hub."""
        label = f"node{node}" if node else HUB
        return f"gossamer-drill-{self.maker.pid}-{self.maker.started}-{self.serial}-{label}"

    def spaces(self) -> list[str]:
        """Return all namespaces, the hub first."""
        return [self.space(node) for node in range(self.nodes + 1)]

    def host(self, node: int) -> str:
        """Return the address of a node; 0: the hub's."""
        return f"{_NET}.{node or _HUB_HOST}"

    def hub_lines(self) -> list[str]:
        """Return the ``ip`` lines for the hub, once all namespaces exist."""
        lines = [
            "link set lo up",
            f"link add {_BRIDGE} type bridge forward_delay 0",
            f"address add {self.host(0)}/24 dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
        ]
        for node in range(1, self.nodes + 1):
            lines.append(f"link add node{node} type veth peer name {CABLE} netns {self.space(node)}")
            lines.append(f"link set node{node} master {_BRIDGE} up")
        return lines

    def node_lines(self, node: int) -> list[str]:
        """Return the ``ip`` lines for the namespace of a node, after the hub's."""
        return [
            "link set lo up",
            f"address add {self.host(node)}/24 dev {CABLE}",
            f"link set {CABLE} up",
            # Local addresses are looked up first; a rule that drops has to come before that.
            f"rule add priority {_LOCAL} lookup local",
            "rule delete priority 0",
        ]

    def cut_lines(self, old: frozenset[int], new: frozenset[int]) -> list[str]:
        """Return the ``ip`` lines for a receiver that change its cut senders from ``old`` to ``new``."""
        add = [
            f"rule add priority {_FIRST_CUT + node} iif {CABLE} from {self.host(node)} blackhole"
            for node in sorted(new - old)
        ]
        return add + [f"rule delete priority {_FIRST_CUT + node}" for node in sorted(old - new)]

    def slow_lines(self, slow: Mapping[int, LinkFault]) -> list[str]:
        """Return the ``tc`` lines for a sender with the kernel's own queue; ``slow``: faults by receiver."""
        if not slow:
            return []
        # The rate limits nothing; a class only serves as the target of a filter.
        lines = [f"qdisc add dev {CABLE} root handle 1: htb default 1", _class("1:1")]
        for node, fault in sorted(slow.items()):
            number = f"{node + 0x10:x}"
            late = _delay(fault) if _is_late(fault) else ""
            loss = f" loss {_percent(fault.loss)}" if fault.loss else ""
            lines += [
                _class(f"1:{number}"),
                f"qdisc add dev {CABLE} parent 1:{number} handle {number}: netem limit 100000{late}{loss}",
                f"filter add {_BEHIND} match ip dst {self.host(node)}/32 flowid 1:{number}",
            ]
        return lines

    def loss_text(self, losses: Mapping[int, float]) -> str:
        """Return the ``nft -f -`` input for a receiver; it replaces all. ``losses``: shares by sender."""
        rules = "".join(
            f'    iifname "{CABLE}" ip saddr {self.host(node)}'
            + ("" if share >= 1 else f" numgen random mod 1000000 < {round(share * 1_000_000)}")
            + " counter drop\n"
            for node, share in sorted(losses.items())
        )
        chain = f"  chain heard {{\n    type filter hook prerouting priority -300;\n{rules}  }}\n"
        return f"table ip drill\ndelete table ip drill\ntable ip drill {{\n{chain}}}\n"


def cuts_of(faults: Iterable[LinkFault], numbers: Mapping[str, int]) -> dict[int, frozenset[int]]:
    """Return the cut senders of each receiver."""
    cuts: dict[int, set[int]] = {}
    for fault in faults:
        if fault.cut:
            cuts.setdefault(numbers[fault.target], set()).add(numbers[fault.source])
    return {node: frozenset(sources) for node, sources in cuts.items()}


def slow_of(faults: Iterable[LinkFault], numbers: Mapping[str, int]) -> dict[int, dict[int, LinkFault]]:
    """Return faults other than cuts, by sender and receiver."""
    slow: dict[int, dict[int, LinkFault]] = {}
    for fault in faults:
        if not fault.cut and (_is_late(fault) or fault.loss):
            slow.setdefault(numbers[fault.source], {})[numbers[fault.target]] = fault
    return slow


def _is_late(fault: LinkFault) -> bool:
    return bool(fault.delay or fault.jitter)


def _delay(fault: LinkFault) -> str:
    # netem's jitter is on both sides of the delay, ours is added on top.
    half = fault.jitter / 2
    return f" delay {_millis(fault.delay + half)}" + (f" {_millis(half)}" if half else "")


def _class(identity: str) -> str:
    return f"class add dev {CABLE} parent 1: classid {identity} htb rate 10gbit quantum 60000"


def _millis(seconds: float) -> str:
    return f"{seconds * 1000:g}ms"


def _percent(share: float) -> str:
    return f"{share * 100:g}%"
