"""The root keys of a run, typed and checked once.

They are no structured config of Hydra: what that says of ``generations=abc`` is "Error merging override", of
``generations=0`` nothing; what is checked here ends with the key, the value and its range.
"""

from dataclasses import dataclass
from typing import Any

import torch

from neuro_cli.core.checks import boolean, integer, number, one_of, thread_count
from neuro_cli.factory.instantiate import value_of
from neuro_cli.runner.target import StopConfig

LAYOUTS = ("shared_batch", "per_example")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


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
    threads: int | None
    ranks: int | None
    time_limit: float | None
    stop: StopConfig
    checkpoint: CheckpointConfig
    evaluate: EvaluateConfig

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "RunConfig":
        """Check the root keys. Raises UserError for a key that is missing, of another type, or out of its range."""

        def positive(key: str, high: int | None = None) -> int:
            return integer(key, value_of(plain, key), 1, high)

        seed = integer("seed", value_of(plain, "seed"), 0, 2**64 - 1)
        generations, population = positive("generations", 2**32 - 1), positive("population", 2**32 - 1)
        batch_size = positive("batch_size")
        best = boolean("checkpoint.best", value_of(plain, "checkpoint").get("best", False))  # earlier versions had none
        checkpoint = CheckpointConfig(positive("checkpoint.every"), positive("checkpoint.keep"), best)
        evaluate = EvaluateConfig(positive("evaluate.every"))
        layout = one_of("layout", value_of(plain, "layout"), LAYOUTS)
        precision = one_of("precision", value_of(plain, "precision"), tuple(PRECISIONS))
        device, threads = value_of(plain, "device"), value_of(plain, "threads")
        ranks, time_limit = value_of(plain, "ranks"), value_of(plain, "time_limit")
        if threads is not None:
            thread_count("threads", threads)
        if ranks is not None:
            # before they are started: with a typing error in it they would take all of the machine's memory
            integer("ranks", ranks, 1, max(population, batch_size))
        if time_limit is not None:
            number("time_limit", time_limit, above=0.0)
        keys = plain.get("stop") or {}  # configs of earlier versions have none
        return cls(
            plain=plain, seed=seed, generations=generations, population=population, batch_size=batch_size, layout=layout,
            precision=precision, device=device, threads=threads, ranks=ranks, time_limit=time_limit,
            stop=StopConfig(keys.get("metric"), keys.get("at")), checkpoint=checkpoint, evaluate=evaluate,
        )  # fmt: skip
