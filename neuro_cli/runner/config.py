"""The root keys of a run, typed and checked once.

They are no structured config of Hydra: what that says of ``generations=abc`` is "Error merging override", of
``generations=0`` nothing; what is checked here ends with the key, the value and its range.
"""

from dataclasses import dataclass
from typing import Any

import torch

from neuro_cli.core.checks import integer
from neuro_cli.factory.instantiate import value_of
from neuro_cli.runner.root_keys import CHECKS, PRECISION_NAMES
from neuro_cli.runner.target import StopConfig

PRECISIONS = {name: getattr(torch, name) for name in PRECISION_NAMES}


@dataclass(frozen=True)
class CheckpointConfig:
    """``every``: generations between two checkpoints; ``keep``: number of the last ones that stay. Both >= 1.

    ``best``: whether one of the best test evaluation stays beside them.
    """

    every: int
    keep: int
    best: bool = False


@dataclass(frozen=True)
class EvaluateConfig:
    """``every``: generations between two evaluations on the test set, >= 1."""

    every: int


@dataclass(frozen=True)
class RunConfig:
    """Root keys of ``conf/train.yaml``; ``plain``: the whole resolved config, as a run folder keeps it."""

    plain: dict[str, Any]
    seed: int
    generations: int
    population: int
    batch_size: int
    layout: str
    precision: str
    device: str
    cuda_graphs: bool
    threads: int | None
    ranks: int | None
    time_limit: float | None
    stop: StopConfig
    checkpoint: CheckpointConfig
    evaluate: EvaluateConfig

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "RunConfig":
        """Check the root keys. Raises UserError for a key that is missing, of another type, or out of its range."""

        def checked(key: str) -> Any:
            return CHECKS[key](key, value_of(plain, key))

        seed, generations = checked("seed"), checked("generations")
        population, batch_size = checked("population"), checked("batch_size")
        every, keep = checked("checkpoint.every"), checked("checkpoint.keep")
        best = CHECKS["checkpoint.best"]("checkpoint.best", plain["checkpoint"].get("best", False))  # earlier versions had none
        checkpoint = CheckpointConfig(every, keep, best)
        evaluate = EvaluateConfig(checked("evaluate.every"))
        layout, precision = checked("layout"), checked("precision")
        device, threads, ranks = value_of(plain, "device"), checked("threads"), value_of(plain, "ranks")
        graphs = CHECKS["cuda_graphs"]("cuda_graphs", plain.get("cuda_graphs", False))  # earlier versions had none
        if ranks is not None:
            # before they are started: with a typing error in it they would take all of the machine's memory
            integer("ranks", ranks, 1, max(population, batch_size))
        time_limit = checked("time_limit")
        keys = plain.get("stop") or {}  # configs of earlier versions have none
        return cls(
            plain=plain, seed=seed, generations=generations, population=population, batch_size=batch_size, layout=layout,
            precision=precision, device=device, cuda_graphs=graphs, threads=threads, ranks=ranks, time_limit=time_limit,
            stop=StopConfig(keys.get("metric"), keys.get("at")), checkpoint=checkpoint, evaluate=evaluate,
        )  # fmt: skip
