"""MQTT 3.1.1 and 5.0: the broker of one node.

:class:`Broker` is the facade, :func:`mqtt_spec` its supervision tree. The codec stands alone and is of use
without either.
"""

from gossamer.mqtt.auth import Authenticator, Chain, Login, NobodyElse, Verdict
from gossamer.mqtt.broker import Broker, ClientInfo
from gossamer.mqtt.cluster import MqttCluster
from gossamer.mqtt.codec import Framer, decode, encode
from gossamer.mqtt.drain import Drained, drain
from gossamer.mqtt.enhanced import Challenge, Done, Exchange, Method
from gossamer.mqtt.errors import MqttProtocolError
from gossamer.mqtt.fanout import compile_plan
from gossamer.mqtt.limits import Bucket
from gossamer.mqtt.listener import ListenError, mqtt_spec
from gossamer.mqtt.message import Message
from gossamer.mqtt.passwords import PasswordFile, set_password
from gossamer.mqtt.pressure import Pressure
from gossamer.mqtt.properties import Properties
from gossamer.mqtt.reasons import ReasonCode
from gossamer.mqtt.retained_cluster import ClusterRetained
from gossamer.mqtt.scram import Scram, set_scram_password

__all__ = [
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
    "NobodyElse",
    "PasswordFile",
    "Pressure",
    "Properties",
    "ReasonCode",
    "Scram",
    "Verdict",
    "compile_plan",
    "decode",
    "drain",
    "encode",
    "mqtt_spec",
    "set_password",
    "set_scram_password",
]
