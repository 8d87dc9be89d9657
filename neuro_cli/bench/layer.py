"""``neuro bench layer``: cost of one perturbation per example, in multiples of the forward pass without any.

Noise is drawn in every round and its cost counts. The reference is the same module on the same examples, in the same
chunks on the same threads, or in one call with all threads in its operators, whichever is faster. Samplers that reuse no
noise take one example after the other; they get a few examples and their time is scaled.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.bench.table import in_turn, ratios, show, spread, write
from neuro_cli.core.checks import integer
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.threads import Threads
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.factory.instantiate import make
from neuro_cli.runner.build import device_of, threads_of
from neuro_cli.runner.config import PRECISIONS
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.batched import chunk_rows, dense_directions
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.perturbed import PerturbedForward

SIGMA = 0.01
ONE_BY_ONE = 16  # examples of a sampler that takes one after the other


@dataclass
class Case:
    """Case of a benchmark: a module, the shape of one example, their number, and the values of its largest activation."""

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    examples: int
    largest: int


def bench_layer(config: dict[str, Any], run: Path) -> None:
    """Measure, print a table and write layer.csv. Raises UserError."""
    device = device_of(config["device"])
    count = threads_of(config["threads"], SingleProcess(), device)
    rows: list[dict[str, Any]] = []
    table = []
    for case in cases(config["layer"]):
        subject = Subject(case, device, PRECISIONS[config["precision"]], count)
        work = subject.references() | subject.work(config["samplers"])
        seconds = in_turn(work, config["repeats"])
        chunks, single = (seconds.pop(name) for name in ("chunks", "single"))
        reference = min(chunks, single, key=statistics.median)
        rows += [
            {"layer": case.name, "what": "reference", "round": i, "seconds": s, "multiple": 1.0} for i, s in enumerate(reference)
        ]
        line = [case.name, f"{1e3 * statistics.median(reference):.2f}"]
        multiples = {name: ratios(subject.scaled(name, values), reference) for name, values in seconds.items()}
        rows += [
            {"layer": case.name, "what": name, "round": i, "seconds": s, "multiple": m}
            for name, values in multiples.items()
            for i, (s, m) in enumerate(zip(seconds[name], values, strict=True))
        ]
        table += [
            [*(line if not place else ["", ""]), name, spread(multiples[f"{name} forward"]), spread(multiples[f"{name} update"])]
            for place, name in enumerate(config["samplers"])
        ]
    write(run / "layer.csv", rows, count)
    title = f"one perturbation an example, {config['precision']}: multiples of the unperturbed forward pass"
    show(title, ("layer", "reference ms", "sampler", "forward", "update"), table, count, run / "layer.csv")


def cases(options: dict[str, Any]) -> list[Case]:
    """Layers and networks of the config's ``layer`` node. Raises UserError."""
    batch = {kind: integer(f"layer.{kind}.examples", node["examples"], 1) for kind, node in options.items()}
    found: list[Case] = []
    for size in options["linear"]["features"]:
        module = nn.Linear(integer("layer.linear.features", size, 1), size, bias=False)
        found.append(Case(f"linear {size}", module, (size,), batch["linear"], size))
    for channels, side in options["convolution"]["sizes"]:
        convolution = nn.Conv2d(integer("layer.convolution.sizes", channels, 1), channels, 3, padding=1, bias=False)
        shape = (channels, side, side)
        found.append(Case(f"conv {channels} at {side}x{side}", convolution, shape, batch["convolution"], channels * side * side))
    for name, node in options["network"]["models"].items():
        network = make({"model": node}, "model", nn.Module)
        shape = tuple(getattr(network, "input_shape", (784,)))
        found.append(Case(name, network, shape, batch["network"], 0))
    return found


class Subject:
    """Case that is ready to run: centre, examples, chunks."""

    def __init__(self, case: Case, device: torch.device, precision: torch.dtype, threads: int) -> None:
        self.case, self._device, self._precision, self._count = case, device, precision, threads
        self._threads = Threads(threads)
        self._layout = ParameterLayout(case.module)
        self._centre = self._layout.flatten(case.module).to(device)
        self._candidate = Candidate(case.module.to(device), self._layout, precision, device)
        self._candidate.flat.copy_(self._centre)
        self._module = self._candidate.ready()
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(case.examples, *case.shape, generator=generator).to(device, precision)
        self._x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
        rows = chunk_rows(case.largest or self._largest(), device, case.examples)
        self._chunks = [(low, min(low + rows, case.examples)) for low in range(0, case.examples, rows)]
        self._one_by_one: set[str] = set()

    def _largest(self) -> int:
        """Number of values in the largest output of a layer for one example."""
        sizes = []
        hooks = [part.register_forward_hook(lambda _m, _i, out: sizes.append(out.numel())) for part in self._module.modules()]
        with torch.no_grad():
            self._module(self._x[:1])
        for hook in hooks:
            hook.remove()
        return max(sizes)

    def references(self) -> dict[str, Callable[[int], None]]:
        """Unperturbed passes by name: in chunks on threads, and in one call."""

        def chunk(bounds: tuple[int, int]) -> None:
            with torch.no_grad():
                self._module(self._x[slice(*bounds)])

        def chunks(number: int) -> None:
            self._threads.map(chunk, self._chunks)
            self._wait()

        def single(number: int) -> None:
            torch.set_num_threads(self._count)
            with torch.no_grad():
                self._module(self._x)
            self._wait()
            torch.set_num_threads(1)

        return {"chunks": chunks, "single": single}

    def work(self, samplers: dict[str, Any]) -> dict[str, Callable[[int], None]]:
        """Forward passes and updates of every sampler, by name."""
        made: dict[str, Callable[[int], None]] = {}
        for name, node in samplers.items():
            sampler: Sampler = make({"sampler": node}, "sampler", Sampler)
            noise = Noise(1, self._layout.size, self._device, self._threads)
            batched = sampler.reuses_noise or self._device.type != "cpu"
            members = self.case.examples * (2 if sampler.antithetic else 1) if batched else ONE_BY_ONE
            sampler.bind(noise, members, self._layout)
            if not batched:
                self._one_by_one.add(name)
            made[f"{name} forward"] = self._forward(sampler) if batched else self._members(sampler)
            made[f"{name} update"] = self._update(sampler)
        return made

    def scaled(self, name: str, seconds: list[float]) -> list[float]:
        """Seconds for all examples, scaled up for a sampler that has run a few."""
        few = name.rsplit(" ", 1)[0] in self._one_by_one
        return [value * self.case.examples / ONE_BY_ONE if few else value for value in seconds]

    def _forward(self, sampler: Sampler) -> Callable[[int], None]:
        sides = [SIGMA, -SIGMA] if sampler.antithetic else [SIGMA]

        def chunk(bounds: tuple[int, int], number: int) -> None:
            low, high = bounds
            rows = MemberBatch(sides, high - low, 1)
            perturbation = sampler.perturbation(number, low, rows, self._precision)
            x = torch.cat([self._x[low:high]] * len(sides)) if len(sides) > 1 else self._x[low:high]
            with torch.no_grad(), PerturbedForward(self._module, self._layout, perturbation):
                self._module(x)

        chunks = self._chunks if sampler.reuses_noise else self._dense_chunks(sampler.directions)

        def forward(number: int) -> None:
            sampler.prepare(number, range(sampler.directions))
            self._threads.map(lambda bounds: chunk(bounds, number), chunks)
            self._wait()

        return forward

    def _dense_chunks(self, directions: int) -> list[tuple[int, int]]:
        """Chunks as a run would make them, small enough for noise with one number per parameter."""
        first = self._chunks[0][1]
        length = min(first, dense_directions(self._layout.size, self._device))
        return [(low, min(low + length, directions)) for low in range(0, directions, length)]

    def _members(self, sampler: Sampler) -> Callable[[int], None]:
        """Run one example after the other, each with its own weights (a pair: its two members on one example each)."""
        scale = torch.tensor([SIGMA])
        spare = [Candidate(self.case.module, self._layout, self._precision, self._device) for _ in range(2 * self._count)]

        def unit(number: int, direction: int) -> None:
            plus, minus = spare.pop(), spare.pop()
            pair = sampler.antithetic
            sampler.perturb(self._centre, scale, number, direction, plus.flat, minus.flat if pair else None)
            with torch.no_grad():
                for candidate in (plus, minus) if pair else (plus,):
                    candidate.ready()(self._x[direction : direction + 1])
            spare.extend((plus, minus))

        return lambda number: self._threads.map(lambda direction: unit(number, direction), range(sampler.directions))

    def _update(self, sampler: Sampler) -> Callable[[int], None]:
        weights = np.random.default_rng(1).standard_normal((1, sampler.population))

        def update(number: int) -> None:
            made: Tensor = sampler.combine(weights, (1,), number, range(sampler.population), 0, self._layout.size)
            assert made.shape == (1, self._layout.size)
            self._wait()

        return update

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
