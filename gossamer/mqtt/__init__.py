"""MQTT 3.1.1 and 5.0: the broker of one node.

:class:`Broker` is the facade, :func:`mqtt_spec` its supervision tree. The codec stands alone and is of use
without either.
"""

from gossamer.mqtt.acl import Acl
from gossamer.mqtt.auth import Authenticator, Chain, Login, NobodyElse, Verdict
from gossamer.mqtt.broker import Broker, ClientInfo
from gossamer.mqtt.certificates import Certificates
from gossamer.mqtt.cluster import MqttCluster
from gossamer.mqtt.codec import Framer, decode, encode
from gossamer.mqtt.drain import Drained, drain
from gossamer.mqtt.enhanced import Challenge, Done, Exchange, Method
from gossamer.mqtt.errors import MqttProtocolError
from gossamer.mqtt.fanout import compile_plan
from gossamer.mqtt.idents import (
    ASIDE,
    NO_IDENT,
    Tracked,
    base_of,
    ident_in,
    is_recorded,
    mark_of,
    number_of,
    origin_of,
    read_mark,
)
from gossamer.mqtt.limits import Bucket
from gossamer.mqtt.listener import ListenError, mqtt_spec
from gossamer.mqtt.message import Message
from gossamer.mqtt.packets import V5, Subscription
from gossamer.mqtt.passwords import PasswordFile, set_password
from gossamer.mqtt.pressure import Pressure
from gossamer.mqtt.properties import Properties
from gossamer.mqtt.reasons import ReasonCode
from gossamer.mqtt.retained_cluster import ClusterRetained
from gossamer.mqtt.runs import Span, pieces_of, topic_in
from gossamer.mqtt.scram import Scram, set_scram_password
from gossamer.mqtt.tokens import Tokens

__all__ = [
    "ASIDE",
    "NO_IDENT",
    "V5",
    "Acl",
    "Authenticator",
    "Broker",
    "Bucket",
    "Certificates",
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
    "NobodyElse",
    "PasswordFile",
    "Pressure",
    "Properties",
    "ReasonCode",
    "Scram",
    "Span",
    "Subscription",
    "Tokens",
    "Tracked",
    "Verdict",
    "base_of",
    "compile_plan",
    "decode",
    "drain",
    "encode",
    "ident_in",
    "is_recorded",
    "mark_of",
    "mqtt_spec",
    "number_of",
    "origin_of",
    "pieces_of",
    "read_mark",
    "set_password",
    "set_scram_password",
    "topic_in",
]
