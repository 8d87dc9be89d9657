"""One committed iteration: what every peer adds to its model, as plain data. It is all that a model's history consists of."""

from dataclasses import dataclass, field

import msgpack
import numpy as np

from neuro_cli.selection.base import Step

MEMBERS = 2**33  # addresses in an iteration: 2**32 directions of noise, two sides each
MOST_ITERATIONS = 2**32


class InvalidRecordError(ValueError):
    """Bytes that are no record of this format."""


@dataclass(frozen=True)
class Record:
    """``parent``: first bytes of the hash of all records before; ``late``: reports that came too late to count.

    ``side``: numbers (float64) that a task commits with an iteration, for example sums of observations; empty for most.
    """

    iteration: int
    term: int
    peers: int
    members: int
    best: float
    mean: float
    late: int
    parent: bytes
    steps: tuple[Step, ...]
    side: np.ndarray = field(default_factory=lambda: np.empty(0))


def encoded(record: Record) -> bytes:
    steps = [[step.iteration, step.first, step.coefficients.astype("<f4").tobytes()] for step in record.steps]
    numbers = [record.iteration, record.term, record.peers, record.members, record.best, record.mean, record.late]
    return msgpack.packb([*numbers, record.parent, steps, record.side.astype("<f8").tobytes()])


def decoded(content: bytes) -> Record:
    """The record of :func:`encoded` bytes, every field checked. Raises InvalidRecordError."""
    try:
        values = msgpack.unpackb(content, use_list=True, strict_map_key=True)
        iteration, term, peers, members, best, mean, late, parent, steps, side = values
        _check(iteration, MOST_ITERATIONS)
        for value in (term, peers, members, late):
            _check(value, 2**63)
        if not (isinstance(best, float) and isinstance(mean, float) and isinstance(parent, bytes) and len(parent) == 8):
            raise InvalidRecordError("a field of the wrong kind")
        return Record(
            iteration, term, peers, members, best, mean, late, parent,
            tuple(_step(iteration, *step) for step in steps), np.frombuffer(side, "<f8"),
        )  # fmt: skip
    except InvalidRecordError:
        raise
    except Exception as error:  # whatever a parser makes of foreign bytes
        raise InvalidRecordError(f"{type(error).__name__}: {error}") from error


def _step(now: int, iteration: int, first: int, coefficients: bytes) -> Step:
    values = np.frombuffer(coefficients, "<f4")
    _check(iteration, now + 1)
    _check(first, MEMBERS - len(values))
    if not len(values) or not np.isfinite(values).all():
        raise InvalidRecordError("coefficients are missing or no numbers")
    return Step(iteration, first, values)


def _check(value: object, end: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < end:
        raise InvalidRecordError(f"{value!r} is not an integer in [0, {end})")
