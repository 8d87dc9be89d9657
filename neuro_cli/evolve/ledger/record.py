"""Record of one committed iteration: the steps that every peer adds to its model, as plain data."""

from dataclasses import dataclass

import msgpack
import numpy as np

from neuro_cli.selection.base import Step

MEMBERS = 2**33  # addresses in an iteration: 2**32 directions of noise, two sides each
MOST_ITERATIONS = 2**32


class InvalidRecordError(ValueError):
    """Bytes that are not a record of this format."""


@dataclass(frozen=True)
class LedgerRecord:
    """Record of the ledger; ``parent``: first bytes of the hash of all records before; ``late``: reports too late to count.

    ``means`` (C,) float32: mean of every score column over the ``members`` of this iteration, the fitness first. A task may
    learn from them (statistics of observations) and must learn the same at every peer, so they are committed.
    """

    iteration: int
    term: int
    peers: int
    members: int
    best: float
    late: int
    parent: bytes
    steps: tuple[Step, ...]
    means: np.ndarray


def encoded(record: LedgerRecord) -> bytes:
    steps = [
        [step.iteration, step.first, step.coefficients.astype("<f4").tobytes(), *([1] if step.paired else [])]
        for step in record.steps
    ]
    numbers = [record.iteration, record.term, record.peers, record.members, record.best, record.late]
    return msgpack.packb([*numbers, record.parent, steps, record.means.astype("<f4").tobytes()])


def decoded(content: bytes, columns: int | None = None) -> LedgerRecord:
    """Decode :func:`encoded` bytes, with every field checked. Raises InvalidRecordError.

    ``columns``: number of the means; None: not checked.
    """
    try:
        values = msgpack.unpackb(content, use_list=True, strict_map_key=True)
        iteration, term, peers, members, best, late, parent, steps, means = values
        _check(iteration, MOST_ITERATIONS)
        for value, low in ((term, 0), (peers, 1), (members, 1), (late, 0)):
            _check(value, 2**63, low)
        if not (isinstance(best, float) and isinstance(parent, bytes) and len(parent) == 8):
            raise InvalidRecordError("a field of the wrong kind")
        if columns is not None and len(means) != 4 * columns:
            raise InvalidRecordError(f"means of {len(means) // 4} score columns, this task has {columns}")
        return LedgerRecord(
            iteration, term, peers, members, best, late, parent,
            tuple(_step(iteration, *step) for step in steps), finite(means),
        )  # fmt: skip
    except InvalidRecordError:
        raise
    except Exception as error:  # foreign bytes may raise anything in a parser
        raise InvalidRecordError(f"{type(error).__name__}: {error}") from error


def _step(now: int, iteration: int, first: int, coefficients: bytes, paired: int = 0) -> Step:
    values = finite(coefficients)
    _check(iteration, now + 1)
    _check(paired, 2)
    _check(first, MEMBERS - len(values) * (1 + paired))
    if paired and first % 2:
        raise InvalidRecordError(f"pairs that begin with member {first}")
    return Step(iteration, first, values, paired == 1)


def finite(content: bytes, kind: str = "<f4") -> np.ndarray:
    """Decode numbers of a ``kind``, float32 by default, at least one, all of them finite. Raises InvalidRecordError."""
    values = np.frombuffer(content, kind)
    if not len(values) or not np.isfinite(values).all():
        raise InvalidRecordError("numbers are missing or not finite")
    return values


def _check(value: object, end: int, low: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < end:
        raise InvalidRecordError(f"{value!r} is not an integer in [{low}, {end})")
