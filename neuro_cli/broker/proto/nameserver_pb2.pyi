from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterRequest(_message.Message):
    __slots__ = ("address", "broker_id", "token")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    address: str
    broker_id: int
    token: str
    def __init__(self, address: _Optional[str] = ..., broker_id: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("broker_id", "heartbeat_seconds")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    heartbeat_seconds: float
    def __init__(self, broker_id: _Optional[int] = ..., heartbeat_seconds: _Optional[float] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("broker", "token")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    broker: BrokerInfo
    token: str
    def __init__(self, broker: _Optional[_Union[BrokerInfo, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BrokerInfo(_message.Message):
    __slots__ = ("broker_id", "address", "waiting", "running", "workers")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    address: str
    waiting: int
    running: int
    workers: int
    def __init__(self, broker_id: _Optional[int] = ..., address: _Optional[str] = ..., waiting: _Optional[int] = ..., running: _Optional[int] = ..., workers: _Optional[int] = ...) -> None: ...

class BrokersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BrokersReply(_message.Message):
    __slots__ = ("brokers",)
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerInfo]
    def __init__(self, brokers: _Optional[_Iterable[_Union[BrokerInfo, _Mapping]]] = ...) -> None: ...

class PeerRequest(_message.Message):
    __slots__ = ("broker_id",)
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    def __init__(self, broker_id: _Optional[int] = ...) -> None: ...
