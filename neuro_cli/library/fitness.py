"""Adapter that presents a user's fitness function to the scorers as a task.

A closure, ``fitness(module)``, scores one member on its own data. A fitness of a batch, ``fitness(module, inputs, targets)``,
gives a value for each example. With the second form members can share one forward pass, directions can have their own examples,
and ranks can divide them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import REST, Modes
from neuro_cli.core.metric import Metric
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.memory_formats import GroupNorms, formats_of, values_of_channel
from neuro_cli.core.module.own_numbers import marked
from neuro_cli.core.module.precision import in_precision
from neuro_cli.core.module.torch_errors import advised
from neuro_cli.core.seeds import elsewhere
from neuro_cli.distribution.base import Distribution
from neuro_cli.library.shared_pass import Call, answering, captured, own_rows
from neuro_cli.library.watch import Watch, checksum
from neuro_cli.scoring.candidate import scoring_mode
from neuro_cli.scoring.isolation import InputCopies
from neuro_cli.task.base import Batch, Task

Fitness = Callable[..., Any]
TRIED = 16  # examples on which memory formats are tried


class FitnessTask(Task):
    """Task for one generation at a time, set by :meth:`take`.

    ``precision``: that of the scored modules. ``sign``: 1.0, or -1.0 where a lower value of the user's function is better.
    """

    score_names = ("fitness",)
    metrics: tuple[Metric, ...] = ()
    has_loss = False
    own_noise = True  # the user's function may draw random numbers
    evaluation_chunks = 0
    batch_key = "the batch's length"

    def __init__(self, precision: torch.dtype = torch.float32, sign: float = 1.0) -> None:
        self._precision, self._sign = precision, sign
        self._fitness: Fitness | None = None
        self._modes = REST
        self._batch: Batch | None = None
        self._call: Call
        self._captured: Batch | None = None  # the closure's batch, where members share a pass
        self.batch_size = 1
        self.probe: Tensor | None = None  # first input that a closure gave the module
        self._watch: Watch | None = None

    def take(self, fitness: Fitness, inputs: Tensor | None, targets: Tensor | None, modes: Modes = REST) -> None:
        """Take a generation's fitness, its batch, and torch's ``modes`` at the user's call.

        Raises UserError for a batch that is no pair of as many examples.
        """
        if not callable(fitness):
            raise ConfigError("fitness", fitness, "must be a function of a module, or of a module, inputs and targets")
        batch = None
        if inputs is not None or targets is not None:
            if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor) or not inputs.dim() or not targets.dim():
                raise UserError("step: inputs and targets must be two tensors with the examples in their first dimension")
            if not len(inputs) or len(inputs) != len(targets):
                raise UserError(
                    f"step: {len(inputs)} inputs with {len(targets)} targets; as many of both are needed, at least one"
                )
            batch = Batch(inputs, targets)
        self._fitness, self._batch, self._captured, self._modes = fitness, batch, None, modes
        at_rest = replace(modes, gradients=True) == REST  # scoring threads are at rest already: no mode to enter for each member
        # context of the user's function: the user's modes, without gradients
        self._called: Callable[[], AbstractContextManager[Any]] = torch.no_grad if at_rest else self._in_modes
        self.batch_size = len(batch.targets) if batch else 1
        if self._watch is not None:
            self._watch.reset()

    @contextmanager
    def _in_modes(self) -> Iterator[None]:
        with self._modes.entered(), torch.no_grad():
            yield

    @property
    def hands_batch(self) -> bool:  # type: ignore[override]
        """Return whether the user's fitness function takes a batch."""
        return self._batch is not None

    @property
    def autocasts(self) -> bool:
        """Return whether the user calls the present fitness under autocast."""
        return bool(self._modes.autocast)

    def capture(self, module: nn.Module) -> None:
        """Record the batch that the closure passes to the module, by running it up to that call. Raises Unsupported."""
        assert self._fitness is not None
        with self._called():
            self._call = captured(self._fitness, module)
        inputs = self._call.inputs
        self._captured = Batch(inputs, torch.zeros(len(inputs), device=inputs.device, dtype=torch.float32))
        self.batch_size = len(inputs)

    def fit(self, distribution: Distribution, directions: int, per_example: bool) -> None:
        """Score batches of this size. Raises ConfigError for one that cannot be divided as the options require."""
        size = self.batch_size
        if per_example and (not self.hands_batch or size % directions):
            allowed = f"needs step(fitness, inputs, targets) with a multiple of the {directions} directions of noise, not {size}"
            raise ConfigError("layout", "per_example", allowed)
        if size != distribution.job.batch_size:
            distribution.job = replace(distribution.job, batch_size=size)
            distribution.check()

    def release(self) -> None:
        """Forget the batch of :meth:`capture`: members are scored one by one."""
        self._captured, self.batch_size = None, 1

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Return a context in which the captured closure calls its member itself."""
        before = self._captured, self.batch_size
        self.release()
        try:
            yield
        finally:
            self._captured, self.batch_size = before

    @property
    def code(self) -> tuple[Any, ...]:
        """Code of the present fitness and of functions in its closure, the same for closures that a loop creates."""
        function: Any = self._fitness
        while isinstance(function, partial):
            function = function.func
        enclosed = list(getattr(function, "__defaults__", None) or ())
        for cell in getattr(function, "__closure__", None) or ():
            with suppress(ValueError):  # a variable that has no value yet
                enclosed.append(cell.cell_contents)
        inner = [value if isinstance(value, str | bool) else getattr(value, "__code__", None) for value in enclosed]
        return getattr(function, "__code__", type(function)), *inner

    @property
    def own_functions(self) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the present fitness."""
        return (self._fitness,)

    def watch(self, module: nn.Module, compare: bool) -> Watch:
        """Hook ``module`` and all its copies: record their input and convert it to the precision.

        ``compare``: also record whether all members are given the same input, for :meth:`digest`.
        """
        self._watch = Watch(module, self._precision, compare)
        return self._watch

    def load(self, **_: Any) -> None:
        """Do nothing: the examples of a fitness function are the user's."""

    def misfit(self, module: nn.Module) -> str | None:
        """Return None, after setting ``memory_format`` to the first that the module takes. Raises what the fitness raises.

        Calls the fitness once, or twice if the module has convolutions: the two formats differ only for these. The call is the
        first, so it fills caches outside of the module, and marks what lies there for the guards of members.
        """
        if not any(parameter.dim() == 4 for parameter in module.parameters()):
            with suppress(Exception), elsewhere():  # a few examples may be too few: the members raise what is wrong
                self._pass_first(scoring_mode(copied(module)))
            return None
        formats = formats_of(module, self._channel_values())
        for self.memory_format in formats:
            layout = ParameterLayout(module, self.memory_format is torch.channels_last)
            trial = scoring_mode(copied(module))
            layout.attach(trial, layout.flatten(module))
            try:
                with elsewhere(), GroupNorms() as norms, advised("fitness", self._precision):
                    self._pass_first(trial)
            except Exception:
                if self.memory_format is torch.contiguous_format:
                    raise
                continue
            if not norms.seen:
                break
        if self._watch is not None and self._watch.first is not None:
            if self.memory_format not in formats_of(module, values_of_channel(self._watch.first)):  # a closure has its own batch
                self.memory_format = torch.contiguous_format
            few = self._watch.first[:TRIED]
            self.probe = few.clone(memory_format=self.memory_format) if few.dim() == 4 else few.clone()
        return None

    def _pass_first(self, module: nn.Module) -> None:
        """Score a few examples by a copy of the module, whose numbers the pass marks."""
        InputCopies(None, module)  # the module must not write to the script's data
        module = in_precision(module, self._precision)
        marked(module, partial(self.score, module, self._few()))

    def _few(self) -> Batch:
        """Return a few examples, as a member gets them."""
        return self.batch(0, 0, min(TRIED, self.batch_size))

    def _channel_values(self) -> int:
        """Return how many values of a channel the images of the batch have; 0 without a batch."""
        return 0 if self._batch is None else values_of_channel(self._batch.inputs)

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        batch = self._batch or self._captured
        if batch is None:
            inputs = torch.zeros(1, dtype=torch.float32) if self.probe is None else self.probe
            return Batch(inputs, torch.zeros(len(inputs), dtype=torch.float32))
        inputs = batch.inputs[start:stop]
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=self.memory_format)
        return Batch(inputs, batch.targets[start:stop])

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the values (B, 1), float32 or float64, of a fitness of a batch. Raises UserError for another shape."""
        assert self._fitness is not None
        with self._called():
            values = self._fitness(module, batch.inputs, batch.targets)
        count = len(batch.targets)
        if not isinstance(values, Tensor) or values.shape != (count,) or values.is_complex():
            raise UserError(
                f"fitness: it gave {_shape(values)} for {count} examples; with inputs and targets it gives each a value"
            )
        values = values if values.dtype == torch.float64 else values.float()
        return (values if self._sign > 0 else -values)[:, None]

    def outputs(self, module: nn.Module, batch: Batch) -> Any:
        """Call ``module`` as the user's fitness function calls it."""
        with self._called():
            return self._call.outputs(module, batch.inputs)

    def scores_of(self, module: nn.Module, outputs: Any, rows: int) -> Tensor:
        """Return values (rows, 1) of a captured closure: the sum over a member's rows is its fitness times their number."""
        assert self._fitness is not None
        assert self._captured is not None
        length = len(self._captured.targets)
        values = torch.zeros(rows, 1, dtype=torch.float64)
        with answering(module, self._call) as give:
            for row in range(0, rows, length):
                give(own_rows(outputs, row, row + length))
                with self._called():
                    values[row] = self._sign * mean_of(self._fitness(module)) * length
        return values

    def score(self, module: nn.Module, batch: Batch) -> np.ndarray:
        if self._batch is not None:
            return super().score(module, batch)
        assert self._fitness is not None
        if self._watch is not None:
            self._watch.begin()
        with self._called():
            return np.array([self._sign * mean_of(self._fitness(module))])

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        raise AssertionError("a fitness has no loss")

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        raise AssertionError("a fitness has no test set")

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        return {}

    def digest(self) -> int:
        """Return a checksum of the examples of all of this rank's members, 0 if they had none in common."""
        batch = self._batch or self._captured
        if batch is not None:
            return checksum(batch.inputs) ^ (checksum(batch.targets) << 1)
        met = self._watch.common if self._watch is not None else None
        return 0 if met is None else checksum(met)


def mean_of(values: Any) -> float:
    """Return the fitness of a member from a closure's result: a number, or a value for each example. Raises UserError."""
    if isinstance(values, Tensor) and values.dim() == 1 and len(values) and not values.is_complex():
        return float(values.sum(dtype=torch.float64)) / len(values)
    if isinstance(values, Tensor | np.ndarray | np.generic) and values.ndim == 0:
        values = values.item()
    if isinstance(values, bool) or not isinstance(values, int | float):
        raise UserError(f"fitness: it gave {_shape(values)}; a number, or a tensor with a value for each example is needed")
    return float(values)


def _shape(values: Any) -> str:
    sizes = getattr(values, "shape", None)
    if sizes is None or isinstance(values, complex):
        return type(values).__name__
    if isinstance(values, Tensor) and values.is_complex():
        return f"complex numbers of shape {'x'.join(map(str, sizes))}" if sizes else "a complex number"
    return f"a tensor of shape {'x'.join(map(str, sizes))}" if sizes else "one number"
