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


@dataclass
class Ranks(BaseTask):
    """On the ranks of an MPI job: ``what`` says what each of them does."""

    what: str
    rank: int = 0

    def run(self) -> dict[str, Any]:
        import numpy as np

        from neuro_cli.fabric.mpi import mpi_world

        world = mpi_world()
        if self.what == "fail" and world.rank == self.rank:
            raise ValueError(f"rank {world.rank} has failed")
        if self.what == "crash" and world.rank == self.rank:
            os._exit(3)
        if self.what == "fail" and self.rank < 0:
            raise ValueError("all ranks have failed")
        pids = world.all_gather(np.array([os.getpid()], np.int64), [1] * world.size) if self.what != "alone" else []
        return {"pids": [int(pid) for pid in pids], "size": world.size, "text": "x\n\0\xff" * 50_000}


@dataclass
class EveryByte(BaseTask):
    """A result that a terminal or a line-wise launcher would change."""

    count: int

    def run(self) -> bytes:
        return bytes(range(256)) * self.count + b"\r\n\n\r\x04\x03"

    @classmethod
    def result_to_bytes(cls, result: bytes) -> bytes:
        return result
