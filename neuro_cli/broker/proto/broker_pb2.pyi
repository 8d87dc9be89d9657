from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    DONE: _ClassVar[Outcome]
    RAISED: _ClassVar[Outcome]
    CRASHED: _ClassVar[Outcome]
    TIMED_OUT: _ClassVar[Outcome]
    OUT_OF_MEMORY: _ClassVar[Outcome]
    LOST: _ClassVar[Outcome]
    UNKNOWN_KIND: _ClassVar[Outcome]
    TOO_LARGE: _ClassVar[Outcome]
OUTCOME_UNSPECIFIED: Outcome
DONE: Outcome
RAISED: Outcome
CRASHED: Outcome
TIMED_OUT: Outcome
OUT_OF_MEMORY: Outcome
LOST: Outcome
UNKNOWN_KIND: Outcome
TOO_LARGE: Outcome

class Task(_message.Message):
    __slots__ = ("run", "id", "kind", "payload", "timeout_seconds", "delivery")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    run: str
    id: str
    kind: str
    payload: bytes
    timeout_seconds: float
    delivery: bytes
    def __init__(self, run: _Optional[str] = ..., id: _Optional[str] = ..., kind: _Optional[str] = ..., payload: _Optional[bytes] = ..., timeout_seconds: _Optional[float] = ..., delivery: _Optional[bytes] = ...) -> None: ...

class TaskKey(_message.Message):
    __slots__ = ("run", "id")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    run: str
    id: str
    def __init__(self, run: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("run", "id", "outcome", "payload", "error", "worker", "seconds", "delivery")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    run: str
    id: str
    outcome: Outcome
    payload: bytes
    error: str
    worker: str
    seconds: float
    delivery: bytes
    def __init__(self, run: _Optional[str] = ..., id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., payload: _Optional[bytes] = ..., error: _Optional[str] = ..., worker: _Optional[str] = ..., seconds: _Optional[float] = ..., delivery: _Optional[bytes] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("tasks", "token")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    token: bytes
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., token: _Optional[bytes] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("accepted",)
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    accepted: int
    def __init__(self, accepted: _Optional[int] = ...) -> None: ...

class ResultsRequest(_message.Message):
    __slots__ = ("run", "received", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    received: _containers.RepeatedScalarFieldContainer[str]
    token: bytes
    def __init__(self, run: _Optional[str] = ..., received: _Optional[_Iterable[str]] = ..., token: _Optional[bytes] = ...) -> None: ...

class ResultsReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("run", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    token: bytes
    def __init__(self, run: _Optional[str] = ..., token: _Optional[bytes] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("dropped",)
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    dropped: int
    def __init__(self, dropped: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("broker_id", "waiting", "helping", "running", "undelivered", "dead", "finished", "workers", "damage")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    HELPING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    UNDELIVERED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    waiting: int
    helping: int
    running: int
    undelivered: int
    dead: int
    finished: int
    workers: _containers.RepeatedCompositeFieldContainer[WorkerInfo]
    damage: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, broker_id: _Optional[int] = ..., waiting: _Optional[int] = ..., helping: _Optional[int] = ..., running: _Optional[int] = ..., undelivered: _Optional[int] = ..., dead: _Optional[int] = ..., finished: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[WorkerInfo, _Mapping]]] = ..., damage: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkerInfo(_message.Message):
    __slots__ = ("name", "capacity", "holding", "peer")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    name: str
    capacity: int
    holding: int
    peer: bool
    def __init__(self, name: _Optional[str] = ..., capacity: _Optional[int] = ..., holding: _Optional[int] = ..., peer: bool = ...) -> None: ...

class DeadLettersRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class DeadLettersReply(_message.Message):
    __slots__ = ("letters",)
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    def __init__(self, letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("task", "outcome", "error", "attempts", "when")
    TASK_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    task: Task
    outcome: Outcome
    error: str
    attempts: int
    when: float
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., error: _Optional[str] = ..., attempts: _Optional[int] = ..., when: _Optional[float] = ...) -> None: ...

class WorkerMessage(_message.Message):
    __slots__ = ("hello", "capacity", "results", "started", "returned")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    capacity: int
    results: _containers.RepeatedCompositeFieldContainer[Result]
    started: _containers.RepeatedCompositeFieldContainer[TaskKey]
    returned: _containers.RepeatedCompositeFieldContainer[TaskKey]
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., capacity: _Optional[int] = ..., results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ..., started: _Optional[_Iterable[_Union[TaskKey, _Mapping]]] = ..., returned: _Optional[_Iterable[_Union[TaskKey, _Mapping]]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("name", "kinds", "peer")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    name: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    peer: bool
    def __init__(self, name: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., peer: bool = ...) -> None: ...

class BrokerMessage(_message.Message):
    __slots__ = ("welcome", "tasks", "dropped")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    dropped: _containers.RepeatedCompositeFieldContainer[TaskKey]
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., dropped: _Optional[_Iterable[_Union[TaskKey, _Mapping]]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("broker_id", "beat_seconds", "worker_timeout", "message_bytes")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORKER_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    beat_seconds: float
    worker_timeout: float
    message_bytes: int
    def __init__(self, broker_id: _Optional[int] = ..., beat_seconds: _Optional[float] = ..., worker_timeout: _Optional[float] = ..., message_bytes: _Optional[int] = ...) -> None: ...
