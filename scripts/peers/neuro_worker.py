"""Runs neuro, the textbook loop or their bare arithmetic for scripts/bench_peers.py: one generation a line of standard input.

python neuro_worker.py neuro|textbook|roof CONFIG_AS_JSON; prints one JSON object a generation.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core import philox
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.module.precision import PRECISIONS
from neuro_cli.core.shaping import centred_rank
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.fabric.shares import shares
from neuro_cli.factory.own_code import let_import
from neuro_cli.run_folder.summary import peak_memory_bytes
from neuro_cli.runner.build import build, load_task, make_model
from neuro_cli.runner.device import device_of
from neuro_cli.runner.options import Options
from neuro_cli.sampler.base import Sampler

PHASES = ("sample", "perturb", "forward", "communicate", "update")
SIDE = 768  # side of the roof's matrices: three of them stay in a core's share of the cache
Generation = Callable[[int], dict[str, float]]


def neuro(config: dict[str, Any]) -> Generation:
    """Time the runner's own generation; ``perturb`` is the time of sampling beyond drawing the same noise alone."""
    parts = build(Options(config), SingleProcess())
    sampler = parts.distribution.job.sampler
    assert isinstance(sampler, Sampler)
    noise = sampler.noise
    piece = 64 * philox.TILE  # stays in the cache, so that drawing is timed and not writing

    def drawing(generation: int) -> float:
        """Return the seconds to draw a generation's noise without using it."""

        def draw(direction: int) -> None:
            for low in range(0, noise.size, piece):
                noise.draw(generation, [direction], low, min(low + piece, noise.size))

        start = time.perf_counter()
        parts.threads.map(draw, range(sampler.directions))
        return time.perf_counter() - start

    def generation(number: int) -> dict[str, float]:
        start = time.perf_counter()
        parts.distribution.step(number)
        seconds = time.perf_counter() - start
        phases = parts.clock.take()
        peak = float(peak_memory_bytes())  # before the drawing below, which is no part of a generation
        sample = min(drawing(number), phases["sample"])
        return {"seconds": seconds, **phases, "sample": sample, "perturb": phases["sample"] - sample, "peak_memory_bytes": peak}

    return generation


def textbook(config: dict[str, Any]) -> Generation:
    """Time the textbook loop: perturb the module in place, score, restore; all threads inside the operators."""
    device = device_of(config["device"])
    torch.set_num_threads(config["threads"])
    options = Options(config)
    model = make_model(options.plain).to(device)
    task = load_task(options, model, device, SingleProcess())
    task.memory_format = torch.contiguous_format
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    sigma, pairs = 0.02, config["population"] // 2
    generator = torch.Generator(device)

    def noise(number: int, pair: int) -> list[Tensor]:
        generator.manual_seed(number * pairs + pair)
        return [torch.randn(p.shape, generator=generator, device=device) for p in parameters]

    def move(step: list[Tensor], by: float) -> None:
        with torch.no_grad():
            for parameter, eps in zip(parameters, step, strict=True):
                parameter.add_(eps, alpha=by)

    def score(module: nn.Module, batch: Any) -> float:
        return float(task.score(module, batch)[0])

    def generation(number: int) -> dict[str, float]:
        clock = dict.fromkeys(PHASES, 0.0)
        begun = time.perf_counter()
        batch = task.batch(number, 0, config["batch_size"])
        fitness = []
        for pair in range(pairs):
            a = time.perf_counter()
            step = noise(number, pair)
            b = time.perf_counter()
            clock["sample"] += b - a
            for by in (sigma, -2 * sigma):  # +sigma, then -sigma
                a = time.perf_counter()
                move(step, by)
                b = time.perf_counter()
                fitness.append(score(model, batch))
                clock["perturb"] += b - a
                clock["forward"] += time.perf_counter() - b
            a = time.perf_counter()
            move(step, sigma)
            clock["perturb"] += time.perf_counter() - a
        a = time.perf_counter()
        utilities = centred_rank(torch.tensor(fitness, dtype=torch.float64).numpy())
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for pair in range(pairs):
            weight = float(utilities[2 * pair] - utilities[2 * pair + 1]) / (2 * pairs * sigma)
            for parameter, eps in zip(parameters, noise(number, pair), strict=True):
                assert parameter.grad is not None
                parameter.grad.sub_(eps, alpha=weight)
        optimizer.step()
        clock["update"] = time.perf_counter() - a
        return {"seconds": time.perf_counter() - begun, **clock, "peak_memory_bytes": float(peak_memory_bytes())}

    return generation


def roof(config: dict[str, Any]) -> Generation:
    """Time the roof: the arithmetic of a generation's forward passes as plain matrix products, one thread each."""
    from torch.utils.flop_counter import FlopCounterMode  # takes 90 MB, which the other systems do not need

    device, precision = device_of(config["device"]), PRECISIONS[config["precision"]]
    options = Options(config)
    model = make_model(options.plain).to(device)
    task = load_task(options, model, device, SingleProcess())
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(task.batch(0, 0, config["batch_size"]).inputs)
    threads = Threads(config["threads"])
    products = round(counter.get_total_flops() * config["population"] / (2 * SIDE**3))
    matrices = [torch.randn(SIDE, SIDE, device=device).to(precision) for _ in range(2)]

    def share(count: int) -> None:
        for _ in range(count):
            torch.mm(*matrices)

    def generation(number: int) -> dict[str, float]:
        begun = time.perf_counter()
        threads.map(share, [b - a for a, b in shares(products, config["threads"])])
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - begun
        clock = dict.fromkeys(PHASES, 0.0)
        return {"seconds": seconds, **clock, "forward": seconds, "peak_memory_bytes": float(peak_memory_bytes())}

    return generation


# program that imports the modules named on its standard input, and does nothing else; some exist in one process only
IMPORTS = """
import contextlib, importlib, json, sys
for name in json.load(sys.stdin):
    with contextlib.suppress(Exception):
        importlib.import_module(name)
from neuro_cli.run_folder.summary import peak_memory_bytes
print(peak_memory_bytes())
"""


def imports_bytes() -> float:
    """Return the peak memory of a process that imports what this one has imported by now."""
    names = json.dumps([name for name in sys.modules if name != "__main__"])
    done = subprocess.run([sys.executable, "-P", "-c", IMPORTS], input=names, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    let_import()
    system, config = sys.argv[1], json.loads(sys.argv[2])
    try:
        generation = {"neuro": neuro, "textbook": textbook, "roof": roof}[system](config)
        imports = None
        for number, _ in enumerate(sys.stdin):
            row = generation(number)
            imports = imports or imports_bytes()
            print(json.dumps(row | {"imports_memory_bytes": imports}), flush=True)
    except UserError as error:
        print(json.dumps({"refused": str(error)}), flush=True)


if __name__ == "__main__":
    main()
