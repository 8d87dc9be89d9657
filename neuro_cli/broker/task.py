"""Task of a user: data and a function of them, after figure 7 of Hajewski and Oliveira.

The paper's worker takes an object that has ``run()``. Here no object is sent: a task is converted to bytes, and a worker rebuilds
it with the class that the worker's owner has named for that kind. No message chooses a class.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, is_dataclass
from typing import Any, ClassVar, Self

from neuro_cli.core.errors import UserError


class BaseTask(ABC):
    """Unit of work for the workers of a task cluster: derive from it, as a dataclass, and write :meth:`run`.

    ``kind``: name under which workers know the class, by default the class's own. The four conversions are JSON: fields and
    results are numbers, texts, lists and mappings. Override them for another format (protobuf, an image, an array's bytes):
    brokers pass bytes on as they are.
    """

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in vars(cls):
            cls.kind = cls.__name__

    @abstractmethod
    def run(self) -> Any:
        """Do the work, in a process of the worker. An exception becomes the task's error, with its traceback."""

    def to_bytes(self) -> bytes:
        """Pack the task's fields for the worker. Raises UserError for those that JSON cannot hold."""
        if not is_dataclass(self):
            raise UserError(f"task {self.kind}: it must be a dataclass, or have to_bytes and from_bytes of its own")
        return _packed(self.kind, "its fields", asdict(self))

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """Rebuild the task from ``payload``. Raises UserError for bytes that do not fit."""
        try:
            fields = json.loads(payload)
            if isinstance(fields, dict):
                return cls(**fields)
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"task {cls.kind}: its payload does not fit: {' '.join(str(error).split())[:200]}") from error
        raise UserError(f"task {cls.kind}: its payload must be a JSON object of its fields, not {type(fields).__name__}")

    @classmethod
    def result_to_bytes(cls, result: Any) -> bytes:
        """Pack the result of the task's :meth:`run`. Raises UserError for one that JSON cannot hold."""
        return _packed(cls.kind, "its result", result)

    @classmethod
    def result_from_bytes(cls, data: bytes) -> Any:
        """Read the result, in the program that submitted the task. Raises UserError."""
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UserError(f"task {cls.kind}: its result is no JSON: is the worker's class another one?") from error


def _packed(kind: str, what: str, value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"task {kind}: {what} cannot be written as JSON ({error}); override the conversions") from error
