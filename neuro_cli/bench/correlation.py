"""``neuro bench correlation``: cosine of each sampler's gradient estimate and the gradient by back-propagation.

Appendix A of "An efficient GPU implementation of Natural Evolution Strategies for deep learning", on the configured task
and model: the cosine between the estimate from the raw fitnesses and the gradient of the loss on the same examples, at one or
more numbers of ``correlation.steps`` in a training by SGD of rate ``correlation.rate`` and momentum 0.9, for one or more
``correlation.seeds`` of weights, examples and noise. ``loss`` in the file, of the same examples, tells whether it trains.
Every sampler scores as a run would (``layout`` included). Noise on activations has as many draws as give an example no more
passes than the others' members do, at least one; ``passes`` of an example stand in the file.
"""

import copy
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.bench.config import BenchConfig, integers
from neuro_cli.bench.table import show, write
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build, threads_of
from neuro_cli.runner.config import bounded, key, or_none, positive
from neuro_cli.runner.device import device_of
from neuro_cli.runner.options import Options

ACTIVATION = "neuro_cli.sampler.activation.Activation"
SGD: dict[str, Any] = {
    "_target_": "neuro_cli.algo.sgd.SGD",
    "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True, "momentum": 0.9},
    "lr_schedule": {
        "_target_": "neuro_cli.core.schedule.Schedule",
        "key": "algo.lr_schedule",
        "kind": "constant",
        "final": 1.0,
        "generations": 1,
    },
}


@dataclass(frozen=True)
class Correlation:
    populations: list[int] = key(integers(2))
    without: list[str] = key()
    more: dict[str, Any] | None = key()
    examples: int = key(bounded(1))
    sigma: float = key(positive)
    steps: list[int] = key(integers(0, one=True))
    rate: float = key(positive)
    seeds: list[int] | None = key(or_none(integers(0, one=True)))


def bench_correlation(config: BenchConfig, run: Path) -> None:
    """Measure correlations of gradients, print a table and write correlation.csv. Raises UserError."""
    own = config.own(Correlation, "correlation")
    threads = threads_of(config.threads, SingleProcess(), device_of(config.device))
    samplers = {name: node for name, node in (config.samplers | (own.more or {})).items() if name not in own.without}
    rows: list[dict[str, Any]] = []
    for seed in own.seeds or [config.seed]:
        common = {"threads": threads, "seed": seed}
        centres = trained(parts_of(config, **common, **sgd(own.rate)), sorted(set(own.steps)))
        for population in own.populations:
            for name, node in samplers.items():
                changes = common | {"population": population, "sampler": node | {"antithetic": True}}
                if config.layout == "per_example":
                    changes["batch_size"] = population // 2 * own.examples
                passes = _passes(config, changes)
                changes["algo"] = config.plain["algo"] | {"sigma": own.sigma, "shaping": "raw"}
                first = {"sampler": name, "population": population, "seed": seed, "passes": passes}
                measured = correlations(parts_of(config, **changes), centres, own.sigma, config.repeats)
                rows += [first | row for row in measured]
    write(run / "correlation.csv", rows, threads)
    _print(config, rows, threads, run)


def parts_of(config: BenchConfig, **changes: Any) -> Parts:
    """Build the parts of the config's training run with ``changes``. Raises UserError."""
    return build(Options(copy.deepcopy(config.plain | changes)), SingleProcess())


def sgd(rate: float) -> dict[str, Any]:
    """Return the changes that make a run the training by SGD."""
    return {"algo": SGD | {"optimizer": SGD["optimizer"] | {"lr": rate}}, "layout": "shared_batch"}


def _passes(config: BenchConfig, changes: dict[str, Any]) -> int:
    """Return the forward passes per example in a generation; limit the draws of noise on activations to that number."""
    passes = 2 if config.layout == "per_example" else int(changes["population"])
    if changes["sampler"]["_target_"] != ACTIVATION:
        return passes
    parts = parts_of(config, **changes)
    sampler = parts.distribution.job.sampler
    assert isinstance(sampler, Activation)
    each = sampler.passes_a_draw
    parts.threads.close()
    draws = max(1, passes // each)
    changes["sampler"] |= {"draws": draws}
    return draws * each


def trained(parts: Parts, steps: list[int]) -> dict[int, torch.Tensor]:
    """Train once and return the centres (M,) after each of ``steps``, in order."""
    centres, done = {}, 0
    for count in steps:
        for step in range(done, count):
            parts.distribution.step(step)
        done = count
        centres[count] = parts.algo.centre.clone()
    parts.threads.close()
    return centres


def correlations(parts: Parts, centres: dict[int, torch.Tensor], sigma: float, repeats: int) -> Iterator[dict[str, int | float]]:
    """Yield losses and cosines at each of the centres in ``repeats`` generations, each with its own noise and examples."""
    for step, centre in centres.items():
        parts.algo.centre.copy_(centre)
        for generation in range(repeats):
            estimate = _estimate(parts, generation, sigma)
            batch = parts.task.batch(generation, 0, parts.config.batch_size)
            loss, gradient = parts.distribution.job.scorer.gradient(centre, batch)
            cosine = -torch.nn.functional.cosine_similarity(estimate.double(), gradient.double(), dim=0)
            yield {"step": step, "repeat": generation, "loss": loss, "correlation": float(cosine)}
    parts.threads.close()


def _estimate(parts: Parts, generation: int, sigma: float) -> torch.Tensor:
    job = parts.distribution.job
    proposal = parts.algo.ask(generation)  # type: ignore[attr-defined]
    scores = parts.distribution.scores(generation, proposal)[:, 0]
    weights = (scores - scores.mean())[None] / (job.population * sigma)
    return job.sampler.combine(np.ascontiguousarray(weights), (1,), generation, range(job.population), 0, job.columns)[0]


def _print(config: BenchConfig, rows: list[dict[str, Any]], threads: int, run: Path) -> None:
    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    points = list(dict.fromkeys((row["population"], row["step"]) for row in rows))

    def values(name: str, point: tuple[int, int]) -> list[float]:
        return [row["correlation"] for row in rows if row["sampler"] == name and (row["population"], row["step"]) == point]

    def cell(name: str, point: tuple[int, int]) -> str:
        own = values(name, point)
        error = statistics.stdev(own) / len(own) ** 0.5 if len(own) > 1 else float("nan")
        share = statistics.mean(own) / statistics.mean(values(samplers[0], point))
        return f"{statistics.mean(own):.4f} ± {error:.4f} ({share:.2f})"

    model, task = (config.plain[group]["_target_"].rsplit(".", 1)[-1] for group in ("model", "task"))
    title = (
        f"cosine of estimate and gradient: {model} on {task}, {config.layout}, after steps of SGD, "
        f"mean ± standard error of {len(values(samplers[0], points[0]))} (share of {samplers[0]}'s)"
    )
    head = ("sampler", *(f"P = {population}, {step} steps" for population, step in points))
    table = [[name, *(cell(name, point) for point in points)] for name in samplers]
    show(title, head, table, threads, run / "correlation.csv")
