"""``neuro bench roofline``: operations and bytes of each kernel, what the machine could do of them, and how near it comes.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009: a kernel takes at least
the time of its operations at the machine's rate, and at least that of its bytes. Rates are measured in every round too.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.bench.layer.cases import Case, cases
from neuro_cli.bench.layer.methods import SharedPass
from neuro_cli.bench.layer.subject import Subject
from neuro_cli.bench.table import show, spread, write
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.memory import keep_freed_memory
from neuro_cli.core.machine.threads import Threads
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import PRECISIONS, Parts, build, device_of, make_model, threads_of
from neuro_cli.runner.options import Options
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.iid import Iid
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.sampler.permutation import Permutation
from neuro_cli.sampler.sign_flip import SignFlip

PRODUCTS, INTEGERS, MEMORY = "products", "integer operations", "memory"
SIDE = 768  # of the matrices: three of them stay in a core's share of the cache
BLOCK, PASSES = 2048, 400  # numbers in the innermost cache, and turns over them
COPIED = 2**26  # bytes that a thread copies: beyond any cache
# of a normal number, by its definition (neuro_cli.core.philox, .quantile): ten rounds make four words, a wide product counts
# as two since half as many fit a vector; then the quantile's segment, step, product, sum and sign
NORMAL = (10 * (2 * 2 + 2 + 4 + 2)) / 4 + 12
ADAM_BYTES = 4 * (4 + 3)  # a parameter: it, gradient and two moments are read, it and the moments written


@dataclass(frozen=True)
class Work:
    """Operations by kind, and bytes that must come from memory or go there at least once."""

    products: float = 0.0
    integers: float = 0.0
    memory: float = 0.0

    def least(self, rates: dict[str, float]) -> tuple[float, str]:
        """Least seconds at ``rates`` (a second), and what takes them."""
        operations = {PRODUCTS: self.products / rates[PRODUCTS], INTEGERS: self.integers / rates[INTEGERS]}
        counted = sum(operations.values())  # of one set of vector units
        moved = self.memory / rates[MEMORY]
        return (moved, MEMORY) if moved > counted else (counted, max(operations, key=lambda kind: operations[kind]))


Kernel = tuple[str, Work]
Measure = Callable[[int], Sequence[float]]  # seconds of each kernel of a group in a round


@nb.njit(nogil=True, cache=True)
def _integers(values, turns):  # pragma: no cover: compiled
    """Additions and exclusive ors, 32 a turn for each of ``values`` uint32, as vector instructions."""
    for _turn in range(turns):
        for j in range(values.size):
            v = values[j]
            for _ in range(16):
                v = nb.uint32(nb.uint32(v + nb.uint32(0x9E3779B9)) ^ nb.uint32(0x5BD1E995))
            values[j] = v


def bench_roofline(config: dict[str, Any], run: Path) -> None:
    """Measure, print a table and write roofline.csv. Raises UserError."""
    if device_of(config["device"]).type != "cpu":
        raise ConfigError("device", config["device"], "neuro bench roofline counts the kernels of a CPU: cpu")
    one_of("layout", config["layout"], ("shared_batch",))
    count = threads_of(config["threads"], SingleProcess(), device_of("cpu"))
    keep_freed_memory()
    parts = build(Options(config), SingleProcess())
    groups = [generation(config, parts), noise(parts), *layers(config, count)]
    machine = Machine(Threads(count), PRECISIONS[config["precision"]])
    rates: list[dict[str, float]] = []
    seconds: list[list[list[float]]] = [[[] for _ in kernels] for kernels, _ in groups]
    for number in range(config["repeats"] + 1):
        measured = machine.rates()
        taken = [measure(number) for _, measure in groups]
        if number:  # the first round loads and compiles
            rates.append(measured)
            for kept, new in zip(seconds, taken, strict=True):
                for values, value in zip(kept, new, strict=True):
                    values.append(value)
    rows = [
        {"kernel": name, "round": number, **_row(work, value, rates[number])}
        for (kernels, _), kept in zip(groups, seconds, strict=True)
        for (name, work), values in zip(kernels, kept, strict=True)
        for number, value in enumerate(values)
    ]
    write(run / "roofline.csv", rows, count)
    _show(rows, rates, count, run / "roofline.csv")


def _row(work: Work, seconds: float, rates: dict[str, float]) -> dict[str, Any]:
    least, bound = work.least(rates)
    return {
        "products": work.products,
        "integer_operations": work.integers,
        "bytes": work.memory,
        "bound": bound,
        "limit_seconds": least,
        "seconds": seconds,
        "share": least / seconds,
    }


def _show(rows: list[dict[str, Any]], rates: list[dict[str, float]], threads: int, path: Path) -> None:
    table = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        own = [row for row in rows if row["kernel"] == name]
        first = own[0]
        table.append(
            (
                name,
                f"{first['products'] / 1e9:.3g}",
                f"{first['integer_operations'] / 1e9:.3g}",
                f"{first['bytes'] / 1e6:.3g}",
                statistics.mode(row["bound"] for row in own),
                f"{1e3 * statistics.median(row['limit_seconds'] for row in own):.3g}",
                spread([1e3 * row["seconds"] for row in own], ".3g"),
                spread([row["share"] for row in own]),
            )
        )
    columns = ("kernel", "products G", "integers G", "MB", "bound by", "limit ms", "measured ms", "share of the limit")
    show("kernels against the machine", columns, table, threads, path)
    for kind, unit in ((PRODUCTS, "billion a second"), (INTEGERS, "billion a second"), (MEMORY, "GB a second")):
        print(f"{kind}: {spread([1e-9 * each[kind] for each in rates], '.3g')} {unit}")


class Machine:
    """Rates of this machine, on all threads at once, each with data of its own."""

    def __init__(self, threads: Threads, precision: torch.dtype) -> None:
        self._threads = threads
        self._factors = torch.randn(SIDE, SIDE).to(precision)
        self._values = [np.arange(BLOCK, dtype=np.uint32) for _ in range(threads.count)]
        self._blocks = [(torch.ones(COPIED // 4), torch.ones(COPIED // 4)) for _ in range(threads.count)]

    def rates(self) -> dict[str, float]:
        """Operations of each kind a second; bytes read and written a second."""
        each = range(self._threads.count)
        products, integers, copied = 4, BLOCK * PASSES * 32, 2 * COPIED
        work: dict[str, tuple[Callable[[int], Any], float]] = {
            PRODUCTS: (lambda _: [torch.mm(self._factors, self._factors) for _ in range(products)], products * 2 * SIDE**3),
            INTEGERS: (lambda thread: _integers(self._values[thread], PASSES), integers),
            MEMORY: (lambda thread: self._blocks[thread][0].copy_(self._blocks[thread][1]), copied),
        }
        found = {}
        for kind, (function, amount) in work.items():
            begun = time.perf_counter()
            self._threads.map(function, each)
            found[kind] = amount * self._threads.count / (time.perf_counter() - begun)
        return found


def generation(config: dict[str, Any], parts: Parts) -> tuple[list[Kernel], Measure]:
    """Phases of the runner's own generation. Raises ConfigError for a sampler whose operations are not counted here."""
    sampler = parts.distribution.job.parameter_sampler
    if not isinstance(sampler, Iid):
        raise ConfigError("sampler", config["sampler"]["_target_"], "neuro bench roofline counts those of iid and antithetic")
    size, members = parts.layout.size, config["population"]
    made = size * len(sampler.units(range(members)))
    inputs = parts.task.batch(0, 0, config["batch_size"]).inputs
    products, values = forward_work(make_model(config), inputs)
    moved = PRECISIONS[config["precision"]].itemsize * (size + 2 * values)
    phases = {
        "sample": (
            "members: noise, centre + and - it",
            Work(integers=made * NORMAL, products=2 * size * members, memory=4 * (made + size * members)),
        ),
        "forward": ("forward passes of the members", Work(products * members, memory=members * moved)),
        "update": ("update: the noise again, its sum, Adam", Work(2 * made, made * NORMAL, ADAM_BYTES * size)),
    }

    def measure(number: int) -> list[float]:
        parts.distribution.step(number)
        taken = parts.clock.take()
        return [taken[phase] for phase in phases]

    return list(phases.values()), measure


def forward_work(model: nn.Module, inputs: Any) -> tuple[float, int]:
    """Operations of products in a forward pass of ``model``, and numbers that its layers put out."""
    from torch.utils.flop_counter import FlopCounterMode  # takes 90 MB

    values = 0

    def seen(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        nonlocal values
        values += output.numel()

    leaves = [module for module in model.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(seen) for module in leaves]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(inputs)
    for hook in hooks:
        hook.remove()
    return float(counter.get_total_flops()), values


def noise(parts: Parts) -> tuple[list[Kernel], Measure]:
    """Noise of one direction, written to memory by all threads."""
    own = parts.distribution.job.parameter_sampler.noise

    def measure(number: int) -> list[float]:
        begun = time.perf_counter()
        own.draw_whole(number, 0, 0)
        return [time.perf_counter() - begun]

    return [("noise of one direction", Work(integers=own.size * NORMAL, memory=4 * own.size))], measure


def layers(config: dict[str, Any], threads: int) -> list[tuple[list[Kernel], Measure]]:
    """Forward passes of single layers, unperturbed and with a perturbation for each example, its noise drawn before."""
    options, precision = config["roofline"], PRECISIONS[config["precision"]]
    groups = []
    for case in cases(options, "roofline"):
        subject = Subject(case, torch.device("cpu"), precision, threads)
        whole = _layer_work(case, subject)
        work: dict[str, tuple[Callable[[int], Any], int]] = {"unperturbed": (subject.unperturbed, 1)}
        for name in options["samplers"]:
            if name not in config["samplers"]:
                raise ConfigError("roofline.samplers", name, f"must be some of {', '.join(config['samplers'])}")
            node = config["samplers"][name]
            work[name] = (SharedPass(subject, node).forward, _passes(name, subject.sampler(node, 2)))
        kernels = [
            (f"{case.name}, {name}", Work(products=whole.products * passes, memory=whole.memory))
            for name, (_, passes) in work.items()
        ]
        groups.append((kernels, _timed([function for function, _ in work.values()])))
    return groups


def _timed(functions: Sequence[Callable[[int], Any]]) -> Measure:
    def measure(number: int) -> list[float]:
        taken = []
        for function in functions:
            begun = time.perf_counter()
            function(number)
            taken.append(time.perf_counter() - begun)
        return taken

    return measure


def _layer_work(case: Case, subject: Subject) -> Work:
    """Work of an unperturbed pass over all examples; its bytes are those of inputs and outputs."""
    one = subject.x[:1].to(torch.float32)
    products, values = forward_work(case.module, one)
    moved = subject.x.element_size() * (one.numel() + values)
    return Work(products=products * case.examples, memory=moved * case.examples)


def _passes(name: str, sampler: Sampler) -> int:
    """Products of the layer's size in a forward pass: with the centre, and with a matrix of noise where there is one."""
    if isinstance(sampler, SignFlip | Permutation):
        return 2
    if isinstance(sampler, LowRank):
        return 1
    raise ConfigError("roofline.samplers", name, "must be a sampler that reuses noise: sign_flip, permutation, low_rank")
