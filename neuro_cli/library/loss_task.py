"""Adapter that presents a user's loss of a batch to the passes of :class:`neuro_cli.ForwardGradient` as a task.

Legend: B examples, T tokens of an example.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.machine.threads import Modes
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.memory_formats import values_of_channel
from neuro_cli.core.module.own_numbers import with_own_numbers
from neuro_cli.core.module.torch_errors import advised
from neuro_cli.library.fitness import FitnessTask
from neuro_cli.library.watch import checksum
from neuro_cli.scoring.candidate import brief, scoring_mode
from neuro_cli.scoring.passes.recurrent import PACKED
from neuro_cli.task.base import Batch

Rows = tuple[Tensor, ...]


@dataclass(frozen=True)
class Examples(Batch):
    """Examples whose inputs and targets are several tensors each, all with B rows."""

    inputs: Rows  # type: ignore[assignment]
    targets: Rows  # type: ignore[assignment]

    def to(self, dtype: torch.dtype) -> "Examples":
        """Convert floating inputs to ``dtype``, and floating targets too where it is float64, that of trials."""

        def cast(rows: Tensor) -> Tensor:
            return rows.to(dtype) if rows.is_floating_point() else rows

        return Examples(tuple(map(cast, self.inputs)), tuple(map(cast, self.targets)) if dtype == torch.float64 else self.targets)

    def clone(self) -> "Examples":
        return Examples(*(tuple(rows.clone() for rows in part) for part in (self.inputs, self.targets)))

    def __iter__(self) -> Iterator[Tensor]:
        yield from (*self.inputs, *self.targets)


class LossTask(FitnessTask):
    """Task of one batch at a time, set by :meth:`take_batch`; a reward is a negative loss.

    ``forward``: calls the module, None: with a mapping as keywords, with a list or tuple as arguments, with anything else alone.
    ``tokens``: each token's loss is a reward; else their mean is.
    """

    has_loss = True
    own_noise = False

    def __init__(self, precision: torch.dtype, forward: Callable[..., Any] | None, tokens: bool) -> None:
        super().__init__(precision)
        self._forward, self._tokens = forward, tokens
        self._batch: Examples | None = None
        self.form: Hashable = None  # form of the batch, to which noise and plans of passes belong

    def take_batch(self, loss_fn: Callable[..., Any], inputs: Any, targets: Any, modes: Modes) -> None:
        """Take a batch, its loss, and the modes of torch that the user calls in.

        Raises UserError for anything but tensors with as many rows, and for autocast.
        """
        if modes.autocast:
            kind, dtype = next(iter(modes.autocast.items()))
            allowed = "call backward outside of it; ForwardGradient(precision='bfloat16') runs its passes in half precision"
            raise ConfigError("autocast", f"{dtype} on {kind}", allowed)
        if not callable(loss_fn):
            raise ConfigError("loss_fn", type(loss_fn).__name__, "must be a function: backward(loss_fn, inputs, targets)")
        if isinstance(inputs, PackedSequence):
            raise UserError(f"backward: {PACKED}")
        inputs = dict(inputs) if isinstance(inputs, Mapping) else inputs
        self._fitness, self._has_targets = loss_fn, targets is not None
        self._leaves, self._tree = tree_flatten((inputs, targets))
        self._is_rows = [isinstance(leaf, Tensor) for leaf in self._leaves]
        split = len(tree_flatten(inputs)[0])
        parts = self._leaves[:split], self._leaves[split:]
        rows = [tuple(leaf.detach() for leaf in part if isinstance(leaf, Tensor)) for part in parts]
        examples = self._batch = Examples(*rows)
        sizes = {tuple(leaf.shape[:1]) for leaf in examples}
        if not rows[0] or sizes != {(len(rows[0][0]),) if rows[0][0].dim() else None} or sizes == {(0,)}:
            shapes = ", ".join("x".join(map(str, leaf.shape)) or "a number" for leaf in examples)
            raise UserError(
                f"backward: tensors of inputs and targets ({shapes or 'none'}) need the examples, at least one, as rows"
            )
        self.batch_size = len(rows[0][0])
        plain = tuple((type(leaf), leaf if isinstance(leaf, bool | int | float | str) else None) for leaf in self._leaves)
        self.form = (str(self._tree), plain, tuple((leaf.shape, leaf.dtype, leaf.device) for leaf in examples))
        self._modes = Modes(device=modes.device)
        self._called = torch.no_grad if self._modes == Modes() else self._in_modes

    def _few(self) -> Batch:
        return super()._few().to(self._precision)

    def _channel_values(self) -> int:
        assert self._batch is not None
        return max(map(values_of_channel, self._batch.inputs), default=0)

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        def part(rows: Tensor) -> Tensor:
            rows = rows[start:stop]
            return rows.contiguous(memory_format=self.memory_format) if rows.dim() == 4 else rows

        assert self._batch is not None
        return Examples(tuple(map(part, self._batch.inputs)), tuple(rows[start:stop] for rows in self._batch.targets))

    def misfit(self, module: nn.Module) -> str | None:
        """Return None, after setting ``memory_format``. Raises UserError where loss or inputs do not fit, or what they raise."""
        super().misfit(module)
        with advised(type(module).__name__, self._precision):
            self._refuse_unfit(module)
        return None

    def _refuse_unfit(self, module: nn.Module) -> None:
        batch = self.batch(0, 0, min(2, self.batch_size))
        try:
            with torch.no_grad():
                form = scoring_mode(copied(module))
                with_own_numbers(form, lambda: self.rewards(form, batch.clone()), who="loss_fn")
        except UserError:
            raise
        except Exception as error:
            if any(rows.is_floating_point() for rows in batch.inputs) or self._answers(module, batch):
                raise
            kinds = ", ".join(str(rows.dtype) for rows in batch.inputs)
            name = type(module).__name__
            raise UserError(
                f"backward: inputs are {kinds}, which {name} does not take, give it floats: {brief(error)}"
            ) from error

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the negative losses (B, 1), or (B, T, 1) over T. Raises UserError for another shape than (B,) or (B, T)."""
        assert self._fitness is not None
        inputs, targets = self._given(batch)
        with self._called():
            outputs = self._outputs(module, inputs)
            if self._precision not in (torch.float32, torch.float64):
                outputs = tree_map_only(Tensor, lambda part: part.float() if part.dtype == self._precision else part, outputs)
            values = self._fitness(outputs, targets) if self._has_targets else self._fitness(outputs)
        count = len(next(iter(batch)))
        if not isinstance(values, Tensor) or values.dim() not in (1, 2) or len(values) != count or not values.numel():
            got = f"a tensor of shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            allowed = (
                f"one value for each of {count} examples, ({count},), or for each of their tokens; reduction='none' gives these"
            )
            raise UserError(f"loss_fn: it gave {got}; needed is {allowed}")
        values = values if values.is_floating_point() else values.float()
        values = values if values.dtype == torch.float64 else values.float()
        if values.dim() == 1:
            return -values[:, None]
        return -values[..., None] / values.shape[1] if self._tokens and values.shape[1] > 1 else -values.mean(1, keepdim=True)

    def _given(self, batch: Batch) -> Any:
        """Return the script's trees of inputs and targets, with the rows of ``batch``."""
        rows = iter(batch)
        return tree_unflatten(
            [next(rows) if is_rows else leaf for leaf, is_rows in zip(self._leaves, self._is_rows, strict=True)], self._tree
        )

    def _answers(self, module: nn.Module, batch: Batch) -> bool:
        """Return whether the module itself takes ``batch``: then it is the loss that raises."""
        try:
            with torch.no_grad(), self._called():
                self._outputs(scoring_mode(copied(module)), self._given(batch.clone())[0])
        except Exception:
            return False
        return True

    def _outputs(self, module: nn.Module, inputs: Any) -> Any:
        if self._forward is not None:
            return self._forward(module, inputs)
        if isinstance(inputs, dict):
            return module(**inputs)
        return module(*inputs) if isinstance(inputs, list | tuple) else module(inputs)

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        rewards = self.rewards(module, batch)
        return rewards.sum(1) if rewards.dim() > 2 else rewards

    def digest(self) -> int:
        """Return a checksum of the batch that the loss is of."""
        assert self._batch is not None
        digest = 0
        for rows in self._batch:
            digest = (digest << 1) ^ checksum(rows)
        return digest & (2**63 - 1)
