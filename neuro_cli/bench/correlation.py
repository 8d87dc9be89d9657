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
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.bench.checks import integers
from neuro_cli.bench.table import show, write
from neuro_cli.core.checks import number
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build, device_of, threads_of
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


def bench_correlation(config: dict[str, Any], run: Path) -> None:
    """Measure, print a table and write correlation.csv. Raises UserError."""
    options = config["correlation"]
    steps = sorted(set(integers("correlation.steps", _listed(options["steps"]), 0)))
    seeds = integers("correlation.seeds", _listed(config["seed"] if options["seeds"] is None else options["seeds"]), 0)
    sigma = number("correlation.sigma", options["sigma"], above=0.0)
    config["threads"] = threads_of(config["threads"], SingleProcess(), device_of(config["device"]))
    all_of_them = config["samplers"] | (options["more"] or {})
    config["samplers"] = {name: node for name, node in all_of_them.items() if name not in options["without"]}
    integers("correlation.populations", options["populations"], 2)
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        own = copy.deepcopy(config) | {"seed": seed}
        centres = trained(own, steps)
        for population in options["populations"]:
            for name, node in own["samplers"].items():
                setting = copy.deepcopy(own) | {"sampler": node | {"antithetic": True}, "population": population}
                if config["layout"] == "per_example":
                    setting["batch_size"] = population // 2 * options["examples"]
                passes = _passes(setting)
                first = {"sampler": name, "population": population, "seed": seed, "passes": passes}
                rows += [first | row for row in correlations(setting, centres, sigma, config["repeats"])]
    write(run / "correlation.csv", rows, config["threads"])
    _print(config, rows, run)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _passes(setting: dict[str, Any]) -> int:
    """Return the forward passes per example in a generation; limit the draws of noise on activations to that number."""
    passes = 2 if setting["layout"] == "per_example" else int(setting["population"])
    if setting["sampler"]["_target_"] != ACTIVATION:
        return passes
    parts = build(Options(copy.deepcopy(setting)), SingleProcess())
    sampler = parts.distribution.job.sampler
    assert isinstance(sampler, Activation)
    each = sampler.passes_a_draw
    parts.threads.close()
    draws = max(1, passes // each)
    setting["sampler"] |= {"draws": draws}
    return draws * each


def trained(config: dict[str, Any], steps: list[int]) -> dict[int, torch.Tensor]:
    """Train by SGD once and return the centres (M,) after each of ``steps``, in order."""
    algo = copy.deepcopy(SGD)
    algo["optimizer"]["lr"] = number("correlation.rate", config["correlation"]["rate"], above=0.0)
    parts = build(Options(copy.deepcopy(config) | {"algo": algo, "layout": "shared_batch"}), SingleProcess())
    centres, done = {}, 0
    for count in steps:
        for step in range(done, count):
            parts.distribution.step(step)
        done = count
        centres[count] = parts.algo.centre.clone()
    parts.threads.close()
    return centres


def correlations(
    config: dict[str, Any], centres: dict[int, torch.Tensor], sigma: float, repeats: int
) -> Iterator[dict[str, int | float]]:
    """Yield losses and cosines at each of the centres in ``repeats`` generations, each with its own noise and examples."""
    config["algo"] = copy.deepcopy(config["algo"]) | {"sigma": sigma, "shaping": "raw"}
    parts = build(Options(config), SingleProcess())
    for step, centre in centres.items():
        parts.algo.centre.copy_(centre)
        for generation in range(repeats):
            estimate = _estimate(parts, generation, sigma)
            batch = parts.task.batch(generation, 0, config["batch_size"])
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


def _print(config: dict[str, Any], rows: list[dict[str, Any]], run: Path) -> None:
    samplers = list(config["samplers"])
    points = list(dict.fromkeys((row["population"], row["step"]) for row in rows))

    def values(name: str, point: tuple[int, int]) -> list[float]:
        return [row["correlation"] for row in rows if row["sampler"] == name and (row["population"], row["step"]) == point]

    def cell(name: str, point: tuple[int, int]) -> str:
        own = values(name, point)
        error = statistics.stdev(own) / len(own) ** 0.5 if len(own) > 1 else float("nan")
        share = statistics.mean(own) / statistics.mean(values(samplers[0], point))
        return f"{statistics.mean(own):.4f} ± {error:.4f} ({share:.2f})"

    model, task = (config[group]["_target_"].rsplit(".", 1)[-1] for group in ("model", "task"))
    title = (
        f"cosine of estimate and gradient: {model} on {task}, {config['layout']}, after steps of SGD, "
        f"mean ± standard error of {len(values(samplers[0], points[0]))} (share of {samplers[0]}'s)"
    )
    head = ("sampler", *(f"P = {population}, {step} steps" for population, step in points))
    table = [[name, *(cell(name, point) for point in points)] for name in samplers]
    show(title, head, table, config["threads"], run / "correlation.csv")
