"""What this node offers of what MQTT leaves to servers: QoS, retaining, wildcards, shared subscriptions,
subscription identifiers.

CONNACK tells a 5.0 client what is missing (MQTT 5.0, 3.2.2.3), and who asks for it all the same gets the
reason code that says so. 3.1.1 has no words for it: CONNECT and PUBLISH end the connection, SUBSCRIBE gets
its failure code.

Rule: a subscription is granted no more than the maximum QoS, but is never refused for asking for more
([MQTT-3.2.2-10]).
"""

from __future__ import annotations

from typing import Any

import msgspec

from gossamer.mqtt.packets import Publish, Subscription, Will
from gossamer.mqtt.reasons import ReasonCode

__all__ = ["Capabilities"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """See the module."""

    maximum_qos: int = 2
    retain: bool = True
    wildcards: bool = True
    shared: bool = True
    subscription_identifiers: bool = True

    def told(self) -> dict[str, Any]:
        """The properties of CONNACK that say what is missing."""
        missing: dict[str, Any] = {}
        if self.maximum_qos < 2:
            missing["maximum_qos"] = self.maximum_qos
        if not self.retain:
            missing["retain_available"] = 0
        if not self.wildcards:
            missing["wildcard_available"] = 0
        if not self.shared:
            missing["shared_available"] = 0
        if not self.subscription_identifiers:
            missing["subscription_identifiers_available"] = 0
        return missing

    def against(self, message: Publish | Will) -> ReasonCode | None:
        """Why ``message`` may not be published here."""
        if message.qos > self.maximum_qos:
            return ReasonCode.QOS_NOT_SUPPORTED
        if message.retain and not self.retain:
            return ReasonCode.RETAIN_NOT_SUPPORTED
        return None

    def against_filter(self, wanted: Subscription, identifier: int | None) -> ReasonCode | None:
        """Why there is no such subscription here."""
        if identifier is not None and not self.subscription_identifiers:
            return ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
        if not self.shared and wanted.filter.startswith("$share/"):
            return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        if not self.wildcards and ("+" in wanted.filter or "#" in wanted.filter):
            return ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
        return None
