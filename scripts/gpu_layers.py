"""Low rank against inference on this GPU: rows a second of a generation over those of the unperturbed pass.

    python scripts/gpu_layers.py OUT.json [ROUNDS]

Precision bfloat16. Timed as it runs, with a clock on the host, launches included; a measurement takes turns with its reference,
and a round is one pair.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.kernels.graphs import Graphs
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.model.mnist import MLP_270K, MNIST_3M
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.passes.perturbed import PerturbedForward

PRECISION, SIGMA = torch.bfloat16, 0.01


class Subject:
    """Module on ``rows`` examples, ``examples`` of them for each member of ``sampler``; ``recorded``: by CUDA graphs."""

    def __init__(
        self, module: nn.Module, shape: tuple[int, ...], rows: int, examples: int, sampler: Sampler, recorded: bool = False
    ) -> None:
        device = torch.device("cuda")
        self.sampler, self._layout = sampler, ParameterLayout(module)
        candidate = Candidate(module.to(device), self._layout, PRECISION, device)
        candidate.flat.copy_(self._layout.flatten(module))
        self._module = candidate.ready()
        x = torch.randn(rows, *shape, generator=torch.Generator().manual_seed(1)).to(device, PRECISION)
        self._x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
        sampler.bind(Noise(1, self._layout.size, device, Threads(1)), rows // examples, self._layout)
        self._rows = MemberBatch([SIGMA, -SIGMA] if sampler.antithetic else [SIGMA], sampler.directions, examples)
        self._weights = np.random.default_rng(1).standard_normal((1, rows // examples))
        self._graphs = Graphs("passes") if recorded else None
        sampler.graphs = Graphs("sums") if recorded else None

    def plain(self, number: int) -> Tensor:
        """Run the unperturbed pass."""

        def passed(x: Tensor) -> Tensor:
            with torch.no_grad():
                return self._module(x)[:1]

        return passed(self._x) if self._graphs is None else self._graphs("plain", lambda: passed(self._x), [])

    def fresh(self, number: int) -> Tensor:
        """Run the perturbed pass, its noise drawn."""
        self.sampler.prepare(number, range(self.sampler.directions))
        perturbation = self.sampler.perturbation(number, 0, self._rows, PRECISION)
        drawn = perturbation.drawn()
        if self._graphs is None or drawn is None:
            return self._forward(perturbation)
        noise, other = drawn
        return self._graphs("fresh", lambda noise: self._forward(other(noise))[:1], [noise])

    def _forward(self, perturbation: Any) -> Tensor:
        with torch.no_grad(), PerturbedForward(self._module, self._layout, perturbation):
            return self._module(self._x)

    def update(self, number: int) -> Tensor:
        """Sum all noise by weights."""
        return self.sampler.combine(self._weights, (1,), number, range(self.sampler.population), 0, self._layout.size)


def clocked(work: Callable[[int], Any]) -> Callable[[int], float]:
    """Return ``work`` as a function of its seconds on the host, with the device waited for."""

    def run(number: int) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        work(number)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    for number in range(5, 8):
        run(number)
    return run


def rounds(work: dict[str, Callable[[int], float]], count: int) -> dict[str, list[float]]:
    """Return seconds of all pieces of work, one of each in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(10, 10 + count):
        for name, function in work.items():
            seconds[name].append(function(number))
    return seconds


def spread(values: list[float]) -> list[float]:
    """Format median, least and most."""
    return [statistics.median(values), min(values), max(values)]


def inference(count: int) -> list[dict[str, Any]]:
    """Return rows a second of a low-rank generation (fresh noise, update) over those of the unperturbed pass."""
    models: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
        f"linear {size}, {size}": (lambda size=size: nn.Linear(size, size, bias=False), (size,)) for size in (1024, 4096, 8192)
    }
    models |= {"MLP_270K": (MLP_270K, (1, 28, 28)), "MNIST_3M": (MNIST_3M, (1, 28, 28))}
    found = []
    for name, (module, shape) in models.items():
        for rows, examples in ((8192, 1), (8192, 32), (65536, 256)):
            if name == "MNIST_3M" and rows > 8192:
                continue
            subject = Subject(module(), shape, rows, examples, LowRank(antithetic=False))
            both = lambda number, subject=subject: (subject.fresh(number), subject.update(number))  # noqa: E731
            work = {"plain": clocked(subject.plain), "forward": clocked(subject.fresh), "both": clocked(both)}
            seconds = rounds(work, count)
            row: dict[str, Any] = {"model": name, "rows": rows, "members": rows // examples}
            row |= {f"{what}_ms": 1e3 * statistics.median(seconds[what]) for what in work}
            for what in ("forward", "both"):
                row[what] = spread([a / b for a, b in zip(seconds["plain"], seconds[what], strict=True)])
            print(json.dumps(row), flush=True)
            found.append(row)
            subject = None
            torch.cuda.empty_cache()
    return found


def main() -> None:
    out, *count = sys.argv[1:]
    made = inference(int(count[0]) if count else 20)
    Path(out).write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
