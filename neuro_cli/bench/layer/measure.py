"""``neuro bench layer``: time and memory of one perturbation per example, against the unperturbed forward pass.

Tables 1 to 4 of "An efficient GPU implementation of Natural Evolution Strategies for deep learning". As there, drawing the noise
is timed apart from the forward pass, and the update sums the stored noise. A method that cannot store the
noise of all examples (on a CPU, without reuse) is measured on some, and its times and bytes are scaled to all.
"""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.layer.cases import STEPS, Layer, cases
from neuro_cli.bench.layer.memory import FLOAT, noise_numbers, peak_bytes
from neuro_cli.bench.layer.methods import SharedPass
from neuro_cli.bench.layer.subject import Subject
from neuro_cli.bench.table import in_turn, ratios, show, write
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.memory import keep_freed_memory
from neuro_cli.core.module.precision import PRECISIONS
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import threads_of
from neuro_cli.runner.device import device_of

HALF = {"float16": torch.float16}  # measured on GPUs, though no training has it
UNPERTURBED = "unperturbed"
# seconds of rest before each measurement: the unperturbed pass may use threads of OpenMP, which look for more work for some
# milliseconds and would take a core from the next measurement
SPIN = 0.005
Row = dict[str, Any]


def bench_layer(config: BenchConfig, run: Path) -> None:
    """Measure, print a table and write layer.csv and memory.csv. Raises UserError."""
    device = device_of(config.device)
    precision = precision_of(config.precision, device)
    count = threads_of(config.threads, SingleProcess(), device)
    keep_freed_memory()  # a training does, too
    own, samplers = config.own(Layer, "layer"), config.samplers
    times: list[Row] = []
    memory: list[Row] = []
    for case in cases(own):
        subject = Subject(case, device, precision, count)
        times += timed(subject, samplers, own.steps, config.repeats)
        memory += memory_rows(subject, samplers) if "memory" in own.steps else []
        subject.threads.close()
    write(run / "layer.csv", times, count)
    if memory:
        write(run / "memory.csv", memory, count)
    title = f"one perturbation per example, {config.precision}, medians of {config.repeats}; (x): in unperturbed passes"
    columns = ("layer", "unperturbed ms", "method", *(f"{step} ms" for step in STEPS[:3]), "noise MB", "peak MB")
    show(title, columns, list(table(times, memory, list(samplers))), count, run / "layer.csv")


def precision_of(name: Any, device: torch.device) -> torch.dtype:
    """Return the precision of the passes; half precision needs a GPU. Raises ConfigError."""
    allowed = PRECISIONS if device.type == "cpu" else PRECISIONS | HALF
    if device.type == "cpu" and name in HALF:
        raise ConfigError("precision", name, f"half precision needs a GPU, on a CPU it must be one of {', '.join(PRECISIONS)}")
    return allowed[one_of("precision", name, tuple(allowed))]


def method_of(subject: Subject, node: Any) -> SharedPass:
    """Return the method of the sampler that the config's ``node`` describes. Raises UserError."""
    sampler = subject.sampler(node, 2)
    if sampler.antithetic and subject.case.examples % 2:
        raise ConfigError(
            "layer", subject.case.examples, f"{subject.case.name}: antithetic pairs need an even number of examples"
        )
    return SharedPass(subject, node)


def timed(subject: Subject, samplers: dict[str, Any], steps: list[str], repeats: int) -> list[Row]:
    """Return rows of times: one per step of each method and round, and one of the unperturbed pass per round."""
    chosen = [step for step in STEPS[:3] if step in steps]
    methods: dict[str, SharedPass] = {name: method_of(subject, node) for name, node in samplers.items()} if chosen else {}
    work = {f"{name} {step}": getattr(method, step) for name, method in methods.items() for step in chosen}
    rest = SPIN if subject.threads.count > 1 and subject.device.type == "cpu" else 0.0
    seconds = in_turn({UNPERTURBED: subject.unperturbed} | work, repeats, rest)
    reference, rows = seconds[UNPERTURBED], []
    for what, values in seconds.items():
        method = methods.get(what.rsplit(" ", 1)[0])
        examples = subject.case.examples if method is None else method.examples
        scaled = [value * subject.case.examples / examples for value in values]
        for number, (value, multiple) in enumerate(zip(scaled, ratios(scaled, reference), strict=True)):
            row = {"layer": subject.case.name, "what": what, "round": number, "milliseconds": 1e3 * value, "multiple": multiple}
            rows.append(row | {"examples": examples, "of": subject.case.examples})
    return rows


def memory_rows(subject: Subject, samplers: dict[str, Any]) -> list[Row]:
    """Return rows of memory: each method's noise by formula, and the peak of drawing it and running a forward pass with it."""
    peak = peak_bytes(lambda: subject.unperturbed(0), subject.device)
    case = subject.case
    rows = [_memory_row(case.name, UNPERTURBED, (case.examples, case.examples), (0, 0), peak)]
    for name, node in samplers.items():
        method_of(subject, node).forward(0)  # compiles first
        measured: list[SharedPass] = []

        def work(node: Any = node, measured: list[SharedPass] = measured) -> None:
            measured.append(method_of(subject, node))
            measured[0].forward(0)

        peak = peak_bytes(work, subject.device)
        drawn_bytes = subject.precision.itemsize if subject.device.type == "cuda" else FLOAT
        numbers = noise_numbers(subject.sampler(node, case.examples), drawn_bytes)
        rows.append(_memory_row(case.name, name, (measured[0].examples, case.examples), numbers, peak))
        measured.clear()
    return rows


def _memory_row(layer: str, method: str, examples: tuple[int, int], noise: tuple[int, int], peak: int | None) -> Row:
    some, every = examples
    scaled = "" if peak is None else round(peak * every / some)
    row = {"layer": layer, "method": method, "noise_numbers": noise[0], "noise_bytes": noise[1]}
    return row | {"peak_bytes": scaled, "examples": some, "of": every}


def table(times: list[Row], memory: list[Row], names: list[str]) -> Iterator[list[str]]:
    """Yield the lines of the printed table of a layer's measurements."""
    for layer in dict.fromkeys(row["layer"] for row in times):
        own = [row for row in times if row["layer"] == layer]
        plain = _words([row for row in own if row["what"] == UNPERTURBED])
        for place, name in enumerate(names):
            rows = [[row for row in own if row["what"] == f"{name} {step}"] for step in STEPS[:3]]
            of_memory = [row for row in memory if (row["layer"], row["method"]) == (layer, name)]
            some = next((row for part in [*rows, of_memory] for row in part if row["examples"] < row["of"]), None)
            label = name if some is None else f"{name} (of {some['examples']:,}, scaled)"
            bytes_of = [
                f"{row[key] / 1e6:.1f}" if row[key] != "" else "" for row in of_memory for key in ("noise_bytes", "peak_bytes")
            ]
            yield [*((layer, plain) if not place else ("", "")), label, *map(_cell, rows), *(bytes_of or ("", ""))]


def _words(rows: list[Row]) -> str:
    return f"{statistics.median(row['milliseconds'] for row in rows):.2f}" if rows else ""


def _cell(rows: list[Row]) -> str:
    return f"{_words(rows)} ({statistics.median(row['multiple'] for row in rows):.2f})" if rows else ""
