"""Script for every rank that trains by ``neuro_cli.train``; each of three ranks writes its results.

mpiexec -n 3 python -m support.library_program FOLDER, from tests/ (or more ranks, which wait)
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuro_cli.cli.python_calls import evaluate, resume, train
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.fabric.mpi import mpi_world
from support.part_of_world import first_ranks

SMALL: dict[str, Any] = {"population": 8, "batch_size": 16, "threads": 1, "distribution": "replicated", "generations": 3}


class Net(nn.Sequential):
    """A network that only this program defines."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        super().__init__(nn.Flatten(), nn.Linear(64, 10))


def refused(call: Any) -> tuple[str, str]:
    """Return kind and text of the error that ``call`` raises."""
    try:
        call()
    except UserError as error:
        return "ConfigError" if isinstance(error, ConfigError) else "UserError", str(error)
    return "nothing", ""


folder, world = Path(sys.argv[1]), mpi_world()


def called_by_three() -> dict[str, Any]:
    """Collect the results of a rank in a world of three, then in one of two."""
    seen: dict[str, Any] = {}
    names = train(folder=folder / "names-3", **SMALL)
    seen["names-3"] = names.summary["parameters_sha256"]
    seen["default folder"] = str(train(**SMALL).run)  # rank 0 chooses it
    seen["wrong name"] = refused(lambda: train(sead=world.rank))
    seen["wrong on all"] = refused(lambda: train(sead=1))
    seen["another seed"] = refused(lambda: train(**SMALL, seed=1 + world.rank))
    seen["another model"] = refused(lambda: train(**SMALL, model=Net(world.rank)))
    seen["other ranks"] = refused(lambda: train(**SMALL, ranks=2))
    seen["twice"] = refused(lambda: train(folder=folder / "names-3", **SMALL))
    for ranks in (3, 2):
        with first_ranks(ranks) as takes_part:
            if takes_part:
                run = folder / f"object-{ranks}"
                begun = train(folder=run, model=Net(7), **SMALL)
                seen[run.name] = resume(run, generations=5, model=Net(8)).summary["parameters_sha256"]
                seen[f"test of {run.name}"] = evaluate(run, model=Net(9))
                seen[f"{run.name} without"] = refused(lambda run=run: resume(run))
                assert begun.metrics["generation"] == [1, 2, 3, 4, 5]
    return seen


with first_ranks(3) as takes_part:
    if takes_part:
        (folder / f"rank-{world.rank}.json").write_text(json.dumps(called_by_three()))
