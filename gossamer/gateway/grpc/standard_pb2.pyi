from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HealthRequest(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: str
    def __init__(self, service: _Optional[str] = ...) -> None: ...

class HealthReply(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: int
    def __init__(self, status: _Optional[int] = ...) -> None: ...

class ReflectionRequest(_message.Message):
    __slots__ = ("host", "file_by_filename", "file_containing_symbol", "list_services")
    HOST_FIELD_NUMBER: _ClassVar[int]
    FILE_BY_FILENAME_FIELD_NUMBER: _ClassVar[int]
    FILE_CONTAINING_SYMBOL_FIELD_NUMBER: _ClassVar[int]
    LIST_SERVICES_FIELD_NUMBER: _ClassVar[int]
    host: str
    file_by_filename: str
    file_containing_symbol: str
    list_services: str
    def __init__(self, host: _Optional[str] = ..., file_by_filename: _Optional[str] = ..., file_containing_symbol: _Optional[str] = ..., list_services: _Optional[str] = ...) -> None: ...

class ReflectionReply(_message.Message):
    __slots__ = ("valid_host", "original_request", "files", "services", "error")
    VALID_HOST_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_REQUEST_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    valid_host: str
    original_request: ReflectionRequest
    files: Files
    services: ServiceNames
    error: ReflectionError
    def __init__(self, valid_host: _Optional[str] = ..., original_request: _Optional[_Union[ReflectionRequest, _Mapping]] = ..., files: _Optional[_Union[Files, _Mapping]] = ..., services: _Optional[_Union[ServiceNames, _Mapping]] = ..., error: _Optional[_Union[ReflectionError, _Mapping]] = ...) -> None: ...

class Files(_message.Message):
    __slots__ = ("file_descriptors",)
    FILE_DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    file_descriptors: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, file_descriptors: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ServiceNames(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: _containers.RepeatedCompositeFieldContainer[ServiceName]
    def __init__(self, service: _Optional[_Iterable[_Union[ServiceName, _Mapping]]] = ...) -> None: ...

class ServiceName(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ReflectionError(_message.Message):
    __slots__ = ("error_code", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...
