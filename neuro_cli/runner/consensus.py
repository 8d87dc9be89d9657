"""Agreement of the ranks: the UserError of one of them, which is printed once, and the checkpoint of rank 0."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load as tensors_of

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.fabric.base import World
from neuro_cli.run_folder.checkpoint import Checkpoint, Shard, serialised
from neuro_cli.run_folder.state_file import decoded, encoded


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


def on_all_ranks(world: World, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """Return rank 0's checkpoint on every rank; the others give None."""
    if world.size == 1:
        return checkpoint
    head: Any = None
    if checkpoint is not None:
        shards = [asdict(shard) for shard in checkpoint.shards]
        head = [checkpoint.generation, encoded(checkpoint.scalars), shards, str(checkpoint.folder)]
    head = json.loads(world.broadcast(json.dumps(head).encode()))
    if head is None:
        return None
    content = world.broadcast(b"" if checkpoint is None else serialised(checkpoint.tensors))
    return checkpoint or Checkpoint(
        head[0], tensors_of(content), decoded(head[1]), tuple(Shard(**shard) for shard in head[2]), Path(head[3])
    )
