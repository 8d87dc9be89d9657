"""Sessions on a world of ranks: rank 0 broadcasts the resolved config of each job, the others wait for jobs until dismissed.

An exception on any rank ends the job on all ranks, and is printed once. Rank 0 prints errors that all ranks raise together, and
the world continues. Any other error aborts the world, on ranks other than 0 after a moment, so that an error of several ranks is
printed once.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from neuro_cli.core.errors import CandidateError, report
from neuro_cli.core.exit_codes import BAD_INPUT, FAILED
from neuro_cli.core.machine.current_folder import importable
from neuro_cli.fabric.base import World
from neuro_cli.factory.own_code import let_import
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner.consensus import AgreedError, on_all_ranks
from neuro_cli.runner.loop import train
from neuro_cli.runner.options import Options

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """Job of a session: to train ``config`` in ``run`` from ``checkpoint``. ``own_code``: the current folder is importable."""

    config: dict[str, Any]
    run: Path
    checkpoint: Checkpoint | None
    own_code: bool


def guarded(world: World, work: Callable[[], Any]) -> int:
    """Run ``work`` of a session on this rank and return its exit code; abort the world where the ranks did not fail together."""
    try:
        unanimous(world, work)
    except (AgreedError, CandidateError) as error:
        return report(error) if world.rank == 0 else BAD_INPUT
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return report(error) if world.size == 1 else FAILED
    return 0


def unanimous(world: World, work: Callable[[], T]) -> T:
    """Run ``work`` of a session. Raises errors of all ranks together, or of a world of one; prints others and aborts."""
    try:
        return work()
    except (AgreedError, CandidateError):
        raise
    except BaseException as error:  # SystemExit of a user's module too: the other ranks would wait for ever
        if world.size > 1:
            if world.rank:
                time.sleep(0.5 + 0.2 * min(world.rank, 10))
            world.abort(report(error))
        raise


def lead(world: World, options: Options, run: Path, checkpoint: Checkpoint | None) -> int:
    """Lead a session as rank 0: train ``options`` in the folder ``run`` on all ranks. Returns the exit code."""
    log_to(run, 0)
    hand_out(world, options.plain, run, checkpoint)
    return guarded(world, lambda: train(options, world, run, checkpoint))


def hand_out(world: World, config: Mapping[str, Any], run: Path, checkpoint: Checkpoint | None) -> None:
    """Broadcast a session's job from rank 0 to the other ranks, which call :func:`receive`."""
    world.broadcast(json.dumps({"config": config, "run": str(run), "own_code": importable()}).encode())
    on_all_ranks(world, checkpoint)


def follow(world: World) -> int:
    """Follow a session as another rank: train each config that rank 0 broadcasts until it dismisses them. Returns its code."""
    log_to(None, world.rank)
    while isinstance(job := receive(world), Job):
        if job.own_code:
            let_import()
        guarded(world, lambda job=job: train(Options(job.config), world, job.run, job.checkpoint))  # type: ignore[misc]
    return job


def receive(world: World) -> Job | int:
    """Receive the session's next job from rank 0 on another rank, or the exit code with which it dismisses them."""
    message = json.loads(world.broadcast(b""))
    if "stop" in message:
        return int(message["stop"])
    return Job(message["config"], Path(message["run"]), on_all_ranks(world, None), message["own_code"])


def dismiss(world: World, code: int) -> None:
    """Dismiss the other ranks of a session from rank 0, with exit code ``code``."""
    world.broadcast(json.dumps({"stop": code}).encode())
