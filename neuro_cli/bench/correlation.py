"""``neuro bench correlation``: cosine of each sampler's gradient estimate and the gradient by back-propagation.

Appendix A of "An efficient GPU implementation of natural evolution strategies for deep learning", on the configured task
and model: the cosine between the estimate from the raw fitnesses and the gradient of the loss on the same examples, after
``correlation.steps`` steps of SGD from the initial weights. Every sampler scores as a run would (``layout`` included).
"""

import copy
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuro_cli.bench.table import show, write
from neuro_cli.core.checks import integer, number
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build, device_of, threads_of
from neuro_cli.runner.options import Options

SGD = {
    "_target_": "neuro_cli.algo.sgd.SGD",
    "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.05, "momentum": 0.9},
    "lr_schedule": {
        "_target_": "neuro_cli.core.schedule.Schedule",
        "key": "algo.lr_schedule",
        "kind": "constant",
        "final": 1.0,
        "generations": 1,
    },
}


def bench_correlation(config: dict[str, Any], run: Path) -> None:
    """Measure, print a table and write correlation.csv. Raises UserError."""
    options = config["correlation"]
    steps = integer("correlation.steps", options["steps"], 0)
    sigma = number("correlation.sigma", options["sigma"], above=0.0)
    config["threads"] = threads_of(config["threads"], SingleProcess(), device_of(config["device"]))
    start = trained(config, steps)
    rows: list[dict[str, Any]] = []
    config["samplers"] = {name: node for name, node in config["samplers"].items() if name not in options["without"]}
    for population in options["populations"]:
        integer("correlation.populations", population, 2)
        for name, node in config["samplers"].items():
            setting = copy.deepcopy(config) | {"sampler": node | {"antithetic": True}, "population": population}
            if config["layout"] == "per_example":
                setting["batch_size"] = population // 2 * options["examples"]
            values = list(correlations(setting, start, sigma, config["repeats"]))
            rows += [{"sampler": name, "population": population, "repeat": i, "correlation": c} for i, c in enumerate(values)]
    write(run / "correlation.csv", rows, config["threads"])
    _print(config, rows, run)


def trained(config: dict[str, Any], steps: int) -> torch.Tensor:
    """Centre (M,) after ``steps`` of SGD."""
    parts = build(Options(copy.deepcopy(config) | {"algo": SGD, "layout": "shared_batch"}), SingleProcess())
    for step in range(steps):
        parts.distribution.step(step)
    parts.threads.close()
    return parts.algo.centre


def correlations(config: dict[str, Any], centre: torch.Tensor, sigma: float, repeats: int) -> Iterator[float]:
    """Cosines of ``repeats`` generations, each with its own noise and examples."""
    config["algo"] = copy.deepcopy(config["algo"]) | {"sigma": sigma, "shaping": "raw"}
    parts = build(Options(config), SingleProcess())
    parts.algo.centre.copy_(centre)
    for generation in range(repeats):
        estimate = _estimate(parts, generation, sigma)
        batch = parts.task.batch(generation, 0, config["batch_size"])
        _, gradient = parts.distribution.job.scorer.gradient(centre, batch)
        yield float(-torch.nn.functional.cosine_similarity(estimate.double(), gradient.double(), dim=0))
    parts.threads.close()


def _estimate(parts: Parts, generation: int, sigma: float) -> torch.Tensor:
    job = parts.distribution.job
    proposal = parts.algo.ask(generation)  # type: ignore[attr-defined]
    scores = parts.distribution.scores(generation, proposal)[:, 0]
    weights = (scores - scores.mean())[None] / (job.population * sigma)
    return job.sampler.combine(np.ascontiguousarray(weights), (1,), generation, range(job.population), 0, job.columns)[0]


def _print(config: dict[str, Any], rows: list[dict[str, Any]], run: Path) -> None:
    populations, samplers = config["correlation"]["populations"], list(config["samplers"])

    def values(name: str, population: int) -> list[float]:
        return [row["correlation"] for row in rows if (row["sampler"], row["population"]) == (name, population)]

    def cell(name: str, population: int) -> str:
        own = values(name, population)
        error = statistics.stdev(own) / len(own) ** 0.5 if len(own) > 1 else float("nan")
        share = statistics.mean(own) / statistics.mean(values(samplers[0], population))
        return f"{statistics.mean(own):.4f} ± {error:.4f} ({share:.2f})"

    model, task = (config[group]["_target_"].rsplit(".", 1)[-1] for group in ("model", "task"))
    title = (
        f"cosine of estimate and gradient: {model} on {task}, {config['layout']}, after {config['correlation']['steps']} steps, "
        f"mean ± standard error of {config['repeats']} (share of {samplers[0]}'s)"
    )
    table = [[name, *(cell(name, population) for population in populations)] for name in samplers]
    show(
        title,
        ("sampler", *(f"P = {population}" for population in populations)),
        table,
        config["threads"],
        run / "correlation.csv",
    )
