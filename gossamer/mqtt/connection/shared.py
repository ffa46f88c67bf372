"""State and limits that all connections of a node share.

A node may do without some of what MQTT leaves to servers: QoS, retaining, wildcards, shared subscriptions,
subscription identifiers. CONNACK tells a 5.0 client what is missing (MQTT 5.0, 3.2.2.3), and a client that
asks for it all the same gets the reason code that says so. 3.1.1 has no words for it: CONNECT and PUBLISH end
the connection, SUBSCRIBE gets its failure code.

Rule: a subscription is granted the maximum QoS at most, but never refused for more ([MQTT-3.2.2-10]).
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gossamer.config import MqttCapabilitiesConfig, MqttConfig
from gossamer.log_limit import LogLimit
from gossamer.mqtt.auth.access import Access
from gossamer.mqtt.auth.acl import Gate
from gossamer.mqtt.codec.packets import Publish, Will
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.publish.core import Core
from gossamer.mqtt.publish.delayed import BAD_DELAY, is_bad_delay
from gossamer.mqtt.tenants.tenants import Tenants
from gossamer.queues import Queues
from gossamer.routes import RESERVED_TOPIC, InvalidTopicName, TopicLimits, is_reserved, parse_name
from gossamer.supervisor import Runtime

SYSTEM = b"$SYS/"
"""Topics of the server: clients read them."""


class ConnectionLimits:
    """Limits of every connection of a node.

    Read from the configuration once: a channel reads them for every packet, and pydantic models are slow.
    """

    def __init__(self, config: MqttConfig) -> None:
        limits = config.limits
        self.max_packet = limits.max_packet_size
        # Nobody has been let in yet, so nobody gets to fill much memory.
        self.max_connect_packet = min(limits.max_packet_size, 256 * 1024)
        self.receive_maximum = limits.max_inflight
        self.max_write_buffer = limits.max_write_buffer
        self.high_water = min(limits.max_write_buffer, 256 * 1024)
        self.topic_alias_maximum = limits.topic_alias_maximum
        self.connect_timeout = limits.connect_timeout
        self.max_keep_alive = int(limits.max_keepalive)
        self.max_subscriptions = limits.max_subscriptions
        self.max_expiry = int(limits.max_session_expiry)
        self.validate_payloads = config.validate_payloads
        self.capabilities = config.capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Core):
    """State that every connection of a node works on, beside the publish path and the sessions."""

    access: Access
    tenants: Tenants
    limits: ConnectionLimits
    wheel: Wheel
    runtime: Runtime
    disconnected: Counter[str] = field(default_factory=Counter)
    """Clients that this side has disconnected, by reason."""
    log_limit: LogLimit
    """Bounds the lines that clients can cause."""
    queues: Queues | None = None
    """Queues of the cluster; None: it has none, and ``$queue/…`` are ordinary topics."""


def missing_properties(offered: MqttCapabilitiesConfig) -> dict[str, Any]:
    """Properties of CONNACK that say what is not offered."""
    missing: dict[str, object] = {}
    if offered.maximum_qos < 2:
        missing["maximum_qos"] = offered.maximum_qos
    if not offered.retain:
        missing["retain_available"] = 0
    if not offered.wildcards:
        missing["wildcard_available"] = 0
    if not offered.shared:
        missing["shared_available"] = 0
    if not offered.subscription_identifiers:
        missing["subscription_identifiers_available"] = 0
    return missing


def refusal_of(offered: MqttCapabilitiesConfig, message: Publish | Will) -> ReasonCode | None:
    """Return the reason why ``message`` may not be published here, or None."""
    if message.qos > offered.maximum_qos:
        return ReasonCode.QOS_NOT_SUPPORTED
    if message.retain and not offered.retain:
        return ReasonCode.RETAIN_NOT_SUPPORTED
    return None


def topic_refusal_of(
    access: Access, action: str, gate: Gate | None, client_id: str, username: str | None, topic: bytes
) -> tuple[ReasonCode, str] | None:
    """Return the reason code and the reason why a client may not ``publish`` to a topic, or leave a ``will``
    there; None where it may. What is refused is recorded."""
    if topic.startswith(SYSTEM) or (gate is not None and not gate.may_publish(topic)):
        access.denied(action, client_id, username, topic.decode(errors="replace"))
        return ReasonCode.NOT_AUTHORIZED, "not allowed to publish to this topic"
    if is_reserved(topic) or is_bad_delay(topic):
        named = action, client_id, username, topic.decode(errors="replace")
        access.denied(*named, event="topic_refused", by="broker")
        return ReasonCode.TOPIC_NAME_INVALID, RESERVED_TOPIC if is_reserved(topic) else BAD_DELAY
    return None


def will_refusal_of(
    access: Access,
    limits: ConnectionLimits,
    topics: TopicLimits,
    gate: Gate | None,
    client_id: str,
    username: str | None,
    will: Will,
) -> tuple[ReasonCode, str] | None:
    """Return the reason code and the reason why a client may not leave a will, None where it may."""
    refused = topic_refusal_of(access, "will", gate, client_id, username, will.topic)
    if refused is not None:
        return refused
    try:
        parse_name(will.topic, topics)
    except InvalidTopicName as error:
        # Well formed, or CONNECT would have been malformed.
        return ReasonCode.TOPIC_NAME_INVALID, str(error)
    if limits.validate_payloads and will.properties.payload_format and not is_text(will.payload):
        return ReasonCode.PAYLOAD_FORMAT_INVALID, "the payload is not UTF-8"
    missing = refusal_of(limits.capabilities, will)
    return None if missing is None else (missing, "this node does not offer such wills")


def is_text(payload: bytes) -> bool:
    """Return whether a payload is UTF-8."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
