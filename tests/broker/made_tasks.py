"""Tasks derived from `BaseTask` for the tests; its own file, which the processes of workers import."""

import os
from array import array
from dataclasses import dataclass
from typing import Any, Self

from neuro_cli.broker.task import BaseTask


@dataclass
class Square(BaseTask):
    """By the conversions that a task has from the start."""

    number: Any

    def run(self) -> dict[str, Any]:
        return {"square": self.number**2, "process": os.getpid()}


class Sum(BaseTask):
    """Bytes both ways that are no JSON and no text."""

    kind = "sum of doubles"

    def __init__(self, values: array) -> None:
        self.values = values

    def to_bytes(self) -> bytes:
        return self.values.tobytes()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        return cls(array("d", payload))

    def run(self) -> float:
        return sum(self.values)

    @classmethod
    def result_to_bytes(cls, result: float) -> bytes:
        return array("d", [result]).tobytes()

    @classmethod
    def result_from_bytes(cls, data: bytes) -> float:
        return array("d", data)[0]


class Careless(Square):
    """A result that JSON has no form for."""

    def run(self) -> Any:
        return {1, 2}
