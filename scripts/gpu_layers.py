"""Tables 1 to 4 of "An efficient GPU implementation of natural evolution strategies" on this GPU, and low rank against inference.

    python scripts/gpu_layers.py tables OUT.json [ROUNDS]
    python scripts/gpu_layers.py inference OUT.json [ROUNDS]

Sizes and batches are the paper's, precision bfloat16 (its half precision, float16, is `neuro bench layer`'s). A forward pass
is timed by replays of a CUDA graph, so that no launch by Python counts, for the reference too; with the noise given, as in
the paper, and with fresh noise. Updates and inference are timed as they run: with a clock on the host, launches included.
Every measurement takes turns with its reference; a round is one pair.
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

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.threads import Threads
from neuro_cli.model.mnist import MLP_270K, MNIST_3M
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.iid import Iid
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.sampler.permutation import Permutation
from neuro_cli.sampler.sign_flip import SignFlip
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.perturbed import PerturbedForward

PRECISION, SIGMA, REPLAYS = torch.bfloat16, 0.01, 20
LINEAR, LINEAR_EXAMPLES = [(256, 256), (512, 512), (512, 10)], 8192
CONVOLUTION, CONVOLUTION_EXAMPLES = [(3, 64, 32), (64, 64, 32), (128, 128, 16), (256, 256, 8), (512, 512, 4)], 512
SAMPLERS: dict[str, Callable[[], Sampler]] = {
    "iid": lambda: Iid(antithetic=False),
    "antithetic": lambda: Iid(antithetic=True),
    "sign_flip": lambda: SignFlip(antithetic=False),
    "permutation": lambda: Permutation(antithetic=False),
    "permutation 50 %": lambda: Permutation(sparsity=0.5, antithetic=False),
    "permutation 10 %": lambda: Permutation(sparsity=0.1, antithetic=False),
    "low_rank 1": lambda: LowRank(antithetic=False),
}
# forward in multiples of the unperturbed pass (tables 1, 2), update in milliseconds (tables 3, 4); RTX 2070, half precision
PUBLISHED: dict[str, tuple[list[float], list[float], list[float], list[float]]] = {
    "iid": (
        [28.52, 42.96, 13.04], [5.99, 2.54, 3.74, 10.96, 18.88],
        [4.44, 14.314, 0.41], [0.359, 0.521, 1.611, 6.243, 29.101],
    ),
    "antithetic": (
        [14.82, 22.4, 6.26], [4.39, 3.79, 3.86, 6.56, 10.42],
        [1.887, 7.188, 0.281], [0.272, 0.273, 0.33, 1.113, 4.397],
    ),
    "sign_flip": (
        [2.39, 2.46, 2.22], [2.2, 2.23, 2.14, 2.07, 2.01],
        [0.314, 0.325, 0.329], [0.329, 0.324, 0.318, 0.288, 0.322],
    ),
    "permutation": (
        [3.28, 2.9, 2.37], [1.78, 2.27, 2.15, 2.09, 2.05],
        [2.674, 5.092, 0.537], [0.546, 0.59, 0.659, 0.64, 0.818],
    ),
    "permutation 50 %": (
        [3.02, 2.23, 2.37], [1.69, 1.78, 1.67, 1.61, 1.58],
        [1.501, 2.595, 0.531], [0.482, 0.598, 0.633, 0.587, 0.686],
    ),
    "permutation 10 %": (
        [3.14, 2.08, 2.29], [1.69, 1.69, 1.44, 1.29, 1.25],
        [0.656, 0.907, 0.483], [0.516, 0.58, 0.564, 0.544, 0.625],
    ),
}  # fmt: skip
UNPERTURBED = ([0.141, 0.354, 0.233], [1.161, 3.792, 2.918, 2.729, 2.871])  # milliseconds


class Subject:
    """A module on ``rows`` examples, ``examples`` of them for each direction of ``sampler``."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], rows: int, examples: int, sampler: Sampler) -> None:
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

    def plain(self, number: int) -> Tensor:
        """The unperturbed pass."""
        with torch.no_grad():
            return self._module(self._x)

    def given(self) -> Callable[[int], Tensor]:
        """The perturbed pass with noise that is there already."""
        perturbation = self.sampler.perturbation(0, 0, self._rows, PRECISION)
        return lambda number: self._forward(perturbation)

    def fresh(self, number: int) -> Tensor:
        """The perturbed pass, its noise drawn."""
        self.sampler.prepare(number, range(self.sampler.directions))
        return self._forward(self.sampler.perturbation(number, 0, self._rows, PRECISION))

    def _forward(self, perturbation: Any) -> Tensor:
        with torch.no_grad(), PerturbedForward(self._module, self._layout, perturbation):
            return self._module(self._x)

    def update(self, number: int) -> Tensor:
        """The weighted sum of all noise."""
        return self.sampler.combine(self._weights, (1,), number, range(self.sampler.population), 0, self._layout.size)


def replayed(work: Callable[[int], Any]) -> Callable[[int], float]:
    """``work`` as a CUDA graph; its time in seconds on the device."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for number in range(1, 4):
            work(number)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work(4)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def replay(number: int, alive: Any = work) -> float:  # the graph holds addresses only, ``work`` the tensors there
        graph.replay()
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        assert torch.isfinite(kept).all()
        return begin.elapsed_time(end) / 1e3 / REPLAYS

    return replay


def clocked(work: Callable[[int], Any]) -> Callable[[int], float]:
    """``work`` as it is; its time in seconds on the host, the device waited for."""

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
    """Seconds of all, one of each in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(10, 10 + count):
        for name, function in work.items():
            seconds[name].append(function(number))
    return seconds


def spread(values: list[float]) -> list[float]:
    """Median, least, most."""
    return [statistics.median(values), min(values), max(values)]


def layers() -> list[tuple[str, Callable[[], nn.Module], tuple[int, ...], int, int, int]]:
    """(name, module, shape of an example, examples, 0 for linear and 1 for convolution, place in the paper's table)."""
    linear = [
        (f"linear {a}, {b}", lambda a=a, b=b: nn.Linear(a, b, bias=False), (a,), LINEAR_EXAMPLES, 0, place)
        for place, (a, b) in enumerate(LINEAR)
    ]
    convolution = [
        (
            f"conv {a}, {b}, {side}x{side}", lambda a=a, b=b: nn.Conv2d(a, b, 3, padding=1, bias=False), (a, side, side),
            CONVOLUTION_EXAMPLES, 1, place,
        )
        for place, (a, b, side) in enumerate(CONVOLUTION)
    ]  # fmt: skip
    return linear + convolution


def tables(count: int) -> list[dict[str, Any]]:
    """A row a layer and sampler."""
    found = []
    for name, module, shape, examples, kind, place in layers():
        for sampler_name, sampler in SAMPLERS.items():
            row: dict[str, Any] = {"layer": name, "sampler": sampler_name, "table": kind + 1}
            try:
                # two of them: a sampler forgets the noise that it shared when it draws anew, and a graph holds addresses only
                subject, other = (Subject(module(), shape, examples, 1, sampler()) for _ in range(2))
                work = {"plain": replayed(subject.plain), "given": replayed(subject.given()), "fresh": replayed(other.fresh)}
                seconds = rounds(work | {"update": clocked(other.update)}, count)
                row |= {"plain_ms": [1e3 * value for value in spread(seconds["plain"])]}
                for what in ("given", "fresh"):
                    row[what] = spread([a / b for a, b in zip(seconds[what], seconds["plain"], strict=True)])
                row["update_ms"] = [1e3 * value for value in spread(seconds["update"])]
            except (RuntimeError, AssertionError) as error:
                row["error"] = " ".join(str(error).split())[:160] or type(error).__name__
            if sampler_name in PUBLISHED:
                row["published"] = PUBLISHED[sampler_name][kind][place]
                row["published_update_ms"] = PUBLISHED[sampler_name][2 + kind][place]
            row["published_plain_ms"] = UNPERTURBED[kind][place]
            print(json.dumps(row), flush=True)
            found.append(row)
            subject = other = work = None  # their graphs hold gigabytes
            torch.cuda.empty_cache()
    return found


def inference(count: int) -> list[dict[str, Any]]:
    """Rows a second of a low-rank generation (fresh noise, update) over those of the unperturbed pass."""
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
    what, out, *count = sys.argv[1:]
    made = {"tables": tables, "inference": inference}[what](int(count[0]) if count else 20)
    Path(out).write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
