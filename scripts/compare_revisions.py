"""Times generations of two checkouts of neuro in one process, in turns, so that both meet the same machine.

    git worktree add ../before REVISION
    python scripts/compare_revisions.py ../before . --case policy

Each line has the processor time of a generation in both (median), and the median and quartiles of the pairs' ratios, the second
checkout over the first. Networks are unlike those of the benchmarks; ``mnist_3m`` has the layers of MNIST_3M. The first
generations, in which kernels are compiled, are not counted.
"""

import argparse
import copy
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ONE_PASS = {"sampler": "low_rank", "layout": "per_example"}


class Case(NamedTuple):
    """Network with ``members`` on ``examples`` inputs of ``shape``; ``closure``: the fitness holds its batch itself."""

    network: Callable[[], nn.Module]
    shape: tuple[int, ...]
    examples: int
    members: int
    options: dict[str, str]
    closure: bool = False


def policy() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))


def convolutional() -> nn.Module:
    first, second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(), nn.MaxPool2d(2), second, nn.ReLU(), nn.Flatten(), nn.Linear(16 * 49, 10))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 320), nn.ReLU(), nn.Linear(320, 10))


def mnist_3m() -> nn.Module:
    first, second = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
    pools = nn.MaxPool2d(2), nn.ReLU()
    return nn.Sequential(first, *pools, second, *pools, nn.Flatten(), nn.Linear(3136, 1000), nn.ReLU(), nn.Linear(1000, 10))


CASES = {
    "policy": Case(policy, (24,), 16, 256, {}),
    "policy_closure": Case(policy, (24,), 16, 256, {}, closure=True),
    "policy_one_pass": Case(policy, (24,), 256, 256, ONE_PASS),
    "policy_4096_one_pass": Case(policy, (24,), 4096, 4096, ONE_PASS),
    "convolutional_one_pass": Case(convolutional, (1, 14, 14), 256, 64, ONE_PASS),
    "mlp": Case(mlp, (784,), 64, 32, {}),
    "mlp_one_pass": Case(mlp, (784,), 256, 256, ONE_PASS),
    "mnist_3m": Case(mnist_3m, (1, 28, 28), 128, 64, {}),
}


class Checkout:
    """The package ``neuro_cli`` of a folder; its modules stand in ``sys.modules`` only while it is entered."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder.resolve())
        self._modules: dict[str, ModuleType] = {}

    def __enter__(self) -> Any:
        sys.modules.update(self._modules)
        sys.path.insert(0, self._folder)
        return importlib.import_module("neuro_cli")

    def __exit__(self, *_: object) -> None:
        sys.path.remove(self._folder)
        names = [name for name in sys.modules if name.partition(".")[0] == "neuro_cli"]
        self._modules = {name: sys.modules.pop(name) for name in names}


def pairs(case: Case, checkouts: list[Checkout], warmup: int, repeats: int) -> Iterator[tuple[float, float]]:
    """Seconds of processor time of a generation in each checkout, which take turns to be the first."""
    torch.manual_seed(0)
    network, inputs, targets = case.network(), torch.randn(case.examples, *case.shape), torch.randint(0, 4, (case.examples,))

    def score(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return -F.cross_entropy(member(x), y, reduction="none")

    step = (lambda member: score(member, inputs, targets).mean()) if case.closure else score
    batch = () if case.closure else (inputs, targets)
    evolutions = []
    for checkout in checkouts:
        with checkout as neuro:
            evolutions.append(
                neuro.Evolution(copy.deepcopy(network), population=case.members, threads=1, sigma=0.05, **case.options)
            )
    for repeat in range(warmup + repeats):
        seconds = [0.0, 0.0]
        for place in (0, 1) if repeat % 2 else (1, 0):
            with checkouts[place]:
                start = time.process_time()
                evolutions[place].step(step, *batch)
                seconds[place] = time.process_time() - start
        if repeat >= warmup:
            yield seconds[0], seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--case", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=300)
    arguments = parser.parse_args()
    checkouts = [Checkout(arguments.before), Checkout(arguments.after)]
    for name in arguments.case:
        times = list(pairs(CASES[name], checkouts, arguments.warmup, arguments.repeats))
        low, middle, high = statistics.quantiles([after / before for before, after in times], n=4)
        medians = [1e3 * statistics.median(each) for each in zip(*times, strict=True)]
        print(f"{name}: {medians[0]:.2f} and {medians[1]:.2f} ms, {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)


if __name__ == "__main__":
    main()
