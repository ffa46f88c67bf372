from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RetainHandling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETAIN_HANDLING_SEND: _ClassVar[RetainHandling]
    RETAIN_HANDLING_NONE: _ClassVar[RetainHandling]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_ACK: _ClassVar[Outcome]
    OUTCOME_NACK: _ClassVar[Outcome]
    OUTCOME_REJECT: _ClassVar[Outcome]
RETAIN_HANDLING_SEND: RetainHandling
RETAIN_HANDLING_NONE: RetainHandling
OUTCOME_ACK: Outcome
OUTCOME_NACK: Outcome
OUTCOME_REJECT: Outcome

class UserProperty(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("topic", "payload", "qos", "retain", "expiry", "content_type", "user_properties")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    RETAIN_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    USER_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    payload: bytes
    qos: int
    retain: bool
    expiry: int
    content_type: str
    user_properties: _containers.RepeatedCompositeFieldContainer[UserProperty]
    def __init__(self, topic: _Optional[str] = ..., payload: _Optional[bytes] = ..., qos: _Optional[int] = ..., retain: _Optional[bool] = ..., expiry: _Optional[int] = ..., content_type: _Optional[str] = ..., user_properties: _Optional[_Iterable[_Union[UserProperty, _Mapping]]] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ...) -> None: ...

class PublishReply(_message.Message):
    __slots__ = ("published", "failures")
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    published: int
    failures: _containers.RepeatedCompositeFieldContainer[PublishFailure]
    def __init__(self, published: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[PublishFailure, _Mapping]]] = ...) -> None: ...

class PublishFailure(_message.Message):
    __slots__ = ("index", "topic", "error")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    index: int
    topic: str
    error: str
    def __init__(self, index: _Optional[int] = ..., topic: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("filter", "qos", "retain_handling")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    RETAIN_HANDLING_FIELD_NUMBER: _ClassVar[int]
    filter: str
    qos: int
    retain_handling: RetainHandling
    def __init__(self, filter: _Optional[str] = ..., qos: _Optional[int] = ..., retain_handling: _Optional[_Union[RetainHandling, str]] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("messages", "dropped", "lost")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    dropped: int
    lost: int
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., dropped: _Optional[int] = ..., lost: _Optional[int] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("queue", "key", "payload", "user_properties", "expiry")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    USER_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    key: str
    payload: bytes
    user_properties: _containers.RepeatedCompositeFieldContainer[UserProperty]
    expiry: float
    def __init__(self, queue: _Optional[str] = ..., key: _Optional[str] = ..., payload: _Optional[bytes] = ..., user_properties: _Optional[_Iterable[_Union[UserProperty, _Mapping]]] = ..., expiry: _Optional[float] = ...) -> None: ...

class AppendReply(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("start", "settle")
    START_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    start: ConsumeStart
    settle: Settle
    def __init__(self, start: _Optional[_Union[ConsumeStart, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ...) -> None: ...

class ConsumeStart(_message.Message):
    __slots__ = ("queue", "group", "in_flight", "offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: str
    group: str
    in_flight: int
    offset: str
    def __init__(self, queue: _Optional[str] = ..., group: _Optional[str] = ..., in_flight: _Optional[int] = ..., offset: _Optional[str] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("offset", "attempt", "outcome", "reason", "delay")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    offset: int
    attempt: int
    outcome: Outcome
    reason: str
    delay: float
    def __init__(self, offset: _Optional[int] = ..., attempt: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., reason: _Optional[str] = ..., delay: _Optional[float] = ...) -> None: ...

class ConsumeReply(_message.Message):
    __slots__ = ("started", "message", "settled")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    started: ConsumeStarted
    message: QueueMessage
    settled: Settled
    def __init__(self, started: _Optional[_Union[ConsumeStarted, _Mapping]] = ..., message: _Optional[_Union[QueueMessage, _Mapping]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ...) -> None: ...

class ConsumeStarted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class QueueMessage(_message.Message):
    __slots__ = ("offset", "attempt", "key", "payload", "user_properties")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    USER_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    offset: int
    attempt: int
    key: str
    payload: bytes
    user_properties: _containers.RepeatedCompositeFieldContainer[UserProperty]
    def __init__(self, offset: _Optional[int] = ..., attempt: _Optional[int] = ..., key: _Optional[str] = ..., payload: _Optional[bytes] = ..., user_properties: _Optional[_Iterable[_Union[UserProperty, _Mapping]]] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("offset", "attempt", "error")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    offset: int
    attempt: int
    error: str
    def __init__(self, offset: _Optional[int] = ..., attempt: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("node", "version", "state", "nodes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    node: str
    version: str
    state: str
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    def __init__(self, node: _Optional[str] = ..., version: _Optional[str] = ..., state: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("name", "status", "address")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    status: str
    address: str
    def __init__(self, name: _Optional[str] = ..., status: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...
