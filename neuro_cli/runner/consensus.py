"""Collective errors: all ranks raise the UserError of one rank, and print it once."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.fabric.base import World


class AgreedError(UserError):
    """UserError that every rank raises together; rank 0 prints it."""


class AgreedConfigError(AgreedError, ConfigError):
    """ConfigError of one rank, as every rank raises it."""

    def __init__(self, message: str) -> None:
        UserError.__init__(self, message)


def collectively(world: World) -> AbstractContextManager[None]:
    """Raise AgreedError on every rank where the block raises a UserError on any, with the lowest such rank's message."""
    return nullcontext() if world.size == 1 else _collectively(world)


@contextmanager
def _collectively(world: World) -> Iterator[None]:
    message = ""
    cause: UserError | None = None
    try:
        yield
    except AgreedError:
        raise  # an inner block raised it on all ranks
    except UserError as error:
        message, cause = str(error), error
    text = f"{'C' if isinstance(cause, ConfigError) else 'U'}{message}".encode() if cause is not None else b""
    lengths = world.all_gather(np.array([len(text)], np.int64), [1] * world.size)
    if not lengths.any():
        return
    joined = world.all_gather(np.frombuffer(text, np.uint8), [int(length) for length in lengths]).tobytes()
    rank = int(np.flatnonzero(lengths)[0])
    first = joined[: int(lengths[rank])].decode()
    kind, first = AgreedConfigError if first[0] == "C" else AgreedError, first[1:]
    raise kind(first if rank == 0 else f"rank {rank}: {first}") from cause
