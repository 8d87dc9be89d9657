"""Sessions on a world of ranks: rank 0 broadcasts the resolved config of each job, the others wait for jobs until dismissed.

An exception on any rank ends the job on all ranks, and is printed once. Errors that all ranks raise together are printed by
rank 0, and the world continues; any other aborts the world, rank 0 at once and other ranks a moment later, so that an
error on several ranks is still printed once.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

from neuro_cli.core.errors import BAD_INPUT, CandidateError, report
from neuro_cli.fabric.base import World
from neuro_cli.run_folder.checkpoint import Checkpoint, Shard
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner.consensus import AgreedError
from neuro_cli.runner.loop import train
from neuro_cli.runner.options import Options
from neuro_cli.runner.own_code import importable, let_import


def guarded(world: World, work: Callable[[], Any]) -> int:
    """Run ``work`` on this rank and return its exit code; abort the world where the ranks did not fail together."""
    try:
        work()
    except (AgreedError, CandidateError) as error:
        return report(error) if world.rank == 0 else BAD_INPUT
    except BaseException as error:  # sys.exit in a user's module would leave the other ranks waiting too
        if world.size == 1 and isinstance(error, KeyboardInterrupt):
            raise
        if world.size > 1 and world.rank:
            time.sleep(0.5 + 0.2 * min(world.rank, 10))
        code = report(error)
        if world.size > 1:
            world.abort(code)
        return code
    return 0


def lead(world: World, options: Options, run: Path, checkpoint: Checkpoint | None) -> int:
    """Rank 0: train ``options`` in the folder ``run`` on all ranks. Returns the exit code."""
    log_to(run, 0)
    message: dict[str, Any] = {"config": options.plain, "run": str(run), "checkpoint": None, "own_code": importable()}
    if checkpoint is not None:
        shards = [asdict(shard) for shard in checkpoint.shards]
        message["checkpoint"] = {"generation": checkpoint.generation, "scalars": checkpoint.scalars, "shards": shards}
    world.broadcast(json.dumps(message).encode())
    if checkpoint is not None:
        world.broadcast(bytes_of({name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}))
    return guarded(world, lambda: train(options, world, run, checkpoint))


def follow(world: World) -> int:
    """Other ranks: train each config that rank 0 broadcasts until it dismisses them. Returns the exit code from rank 0."""
    log_to(None, world.rank)
    while True:
        message = json.loads(world.broadcast(b""))
        if "stop" in message:
            return int(message["stop"])
        _follow_job(world, message)


def _follow_job(world: World, message: dict[str, Any]) -> None:
    if message["own_code"]:
        let_import()
    checkpoint = None
    if message["checkpoint"] is not None:
        entry = message["checkpoint"]
        shards = tuple(Shard(**shard) for shard in entry["shards"])
        tensors = tensors_of(world.broadcast(b""))
        checkpoint = Checkpoint(entry["generation"], tensors, entry["scalars"], shards, Path(message["run"]) / "checkpoints")
    guarded(world, lambda: train(Options(message["config"]), world, Path(message["run"]), checkpoint))


def dismiss(world: World, code: int) -> None:
    """Rank 0: end the other ranks with exit code ``code``."""
    world.broadcast(json.dumps({"stop": code}).encode())
