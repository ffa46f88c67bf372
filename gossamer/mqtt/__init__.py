"""MQTT 3.1.1 and 5.0: the broker of one node.

:class:`Broker` is the facade, :func:`mqtt_spec` its supervision tree. The codec stands alone.
"""

from gossamer.mqtt.auth.acl import Acl
from gossamer.mqtt.auth.files import Reloadable
from gossamer.mqtt.auth.passwords import PasswordFile, set_password
from gossamer.mqtt.auth.scram import Scram, set_scram_password
from gossamer.mqtt.auth.sources import (
    Authenticator,
    Chain,
    Challenge,
    Done,
    Exchange,
    Login,
    Method,
    Verdict,
)
from gossamer.mqtt.auth.tokens import Tokens
from gossamer.mqtt.broker import Broker, ClientInfo
from gossamer.mqtt.cluster.coordinator import MqttCluster
from gossamer.mqtt.cluster.retained import ClusterRetained
from gossamer.mqtt.codec import Framer, decode, encode
from gossamer.mqtt.codec.decoder import check_topic_name
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.framing import topic_in
from gossamer.mqtt.codec.packets import V5, Subscription
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.connections import Drained, drain
from gossamer.mqtt.connection.listener import ListenError
from gossamer.mqtt.flow.backpressure import Bucket, Pressure
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import (
    ASIDE,
    NO_ID,
    Tracked,
    base_of,
    is_recorded,
    mark_of,
    message_id_in,
    number_of,
    origin_of,
    read_mark,
)
from gossamer.mqtt.messages.records import Span, pieces_of
from gossamer.mqtt.publish.plan import compile_plan
from gossamer.mqtt.publish.queued import data_of, properties_of
from gossamer.mqtt.tenants.tenant import Tenant
from gossamer.mqtt.tenants.tenants import TABLE as TENANTS
from gossamer.mqtt.tree import mqtt_spec

__all__ = [
    "ASIDE",
    "NO_ID",
    "TENANTS",
    "V5",
    "Acl",
    "Authenticator",
    "Broker",
    "Bucket",
    "Chain",
    "Challenge",
    "ClientInfo",
    "ClusterRetained",
    "Done",
    "Drained",
    "Exchange",
    "Framer",
    "ListenError",
    "Login",
    "Message",
    "Method",
    "MqttCluster",
    "MqttProtocolError",
    "PasswordFile",
    "Pressure",
    "Properties",
    "ReasonCode",
    "Reloadable",
    "Scram",
    "Span",
    "Subscription",
    "Tenant",
    "Tokens",
    "Tracked",
    "Verdict",
    "base_of",
    "check_topic_name",
    "compile_plan",
    "data_of",
    "decode",
    "drain",
    "encode",
    "is_recorded",
    "mark_of",
    "message_id_in",
    "mqtt_spec",
    "number_of",
    "origin_of",
    "pieces_of",
    "properties_of",
    "read_mark",
    "set_password",
    "set_scram_password",
    "topic_in",
]
