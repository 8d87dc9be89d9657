"""A step of ``neuro_cli.Evolution`` against a generation of the runner, on the same network, members and batches.

In every round each has its turn of some generations; ratios of the rounds, with the median, the least and the most.

    python scripts/bench_loop.py --rounds 20
"""

import argparse
import statistics
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli import Evolution
from neuro_cli.bench.table import in_turn, ratios, spread
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.model.mnist import MNIST_30K
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options

CONFIG = {
    "seed": 1, "generations": 1000, "batch_size": 128, "layout": "shared_batch", "precision": "float32",
    "device": "cpu", "threads": None, "ranks": None, "time_limit": None, "stop": {"metric": None, "at": None},
    "checkpoint": {"every": 1000, "keep": 1}, "evaluate": {"every": 1000},
    "model": {"_target_": "neuro_cli.model.mnist.MNIST_30K"},
    "task": {"_target_": "neuro_cli.task.digits.Digits", "fitness": "negative_cross_entropy", "evaluation_batch": 500},
    "sampler": {"_target_": "neuro_cli.sampler.iid.Iid", "antithetic": True},
    "distribution": {"_target_": "neuro_cli.distribution.local.Local"},
    "fabric": {"_target_": "neuro_cli.fabric.network.Network", "name": "native"},
    "algo": {"_target_": "neuro_cli.algo.openai_es.OpenAIES"},
}  # fmt: skip


def of_each(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(module(inputs), targets, reduction="none")


def loop(parts: Parts, population: int, closure: bool) -> Callable[[int], None]:
    """Return the function that runs the generation of a number in its own loop, on the run's batches."""
    es = Evolution(MNIST_30K(), population=population)

    def step(generation: int) -> None:
        batch = parts.task.batch(generation, 0, parts.task.batch_size)
        if closure:
            es.step(lambda member: of_each(member, batch.inputs, batch.targets))
        else:
            es.step(of_each, batch.inputs, batch.targets)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--generations", type=int, default=5, help="in every turn")
    parser.add_argument("--population", type=int, default=64)
    given = parser.parse_args()
    parts = build(Options({**CONFIG, "population": given.population}), SingleProcess())
    ways: dict[str, Callable[[int], object]] = {
        "the runner": parts.distribution.step,
        "step(closure)": loop(parts, given.population, True),
        "step(fitness, inputs, targets)": loop(parts, given.population, False),
    }

    def turns_of(step: Callable[[int], object]) -> Callable[[int], None]:
        def turn(number: int) -> None:
            for generation in range(number * given.generations, (number + 1) * given.generations):
                step(generation)

        return turn

    times = in_turn({name: turns_of(step) for name, step in ways.items()}, given.rounds)
    reference = times.pop("the runner")
    print(f"the runner: {statistics.median(reference) / given.generations:.4f} s a generation")
    for name, spent in times.items():
        print(f"{name}: {spread(ratios(spent, reference), '.3f')} of it")


if __name__ == "__main__":
    main()
