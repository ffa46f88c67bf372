"""Check requests against what this node offers of what MQTT leaves to servers: QoS, retaining, wildcards,
shared subscriptions, subscription identifiers.

CONNACK tells a 5.0 client what is missing (MQTT 5.0, 3.2.2.3), and who asks for it all the same gets the
reason code that says so. 3.1.1 has no words for it: CONNECT and PUBLISH end the connection, SUBSCRIBE gets
its failure code.

Rule: a subscription is granted no more than the maximum QoS, but is never refused for asking for more
([MQTT-3.2.2-10]).
"""

from __future__ import annotations

from typing import Any

from gossamer.config import MqttCapabilitiesConfig
from gossamer.mqtt.codec.packets import Publish, Subscription, Will
from gossamer.mqtt.codec.reasons import ReasonCode

__all__ = ["missing_properties", "refusal_of", "refusal_of_subscription"]


def missing_properties(offered: MqttCapabilitiesConfig) -> dict[str, Any]:
    """Properties of CONNACK that say what is not offered."""
    missing: dict[str, Any] = {}
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


def refusal_of_subscription(
    offered: MqttCapabilitiesConfig, wanted: Subscription, identifier: int | None
) -> ReasonCode | None:
    """Return the reason why there is no such subscription here, or None."""
    if identifier is not None and not offered.subscription_identifiers:
        return ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
    if not offered.shared and wanted.filter.startswith("$share/"):
        return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if not offered.wildcards and ("+" in wanted.filter or "#" in wanted.filter):
        return ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    return None
