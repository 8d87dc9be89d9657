"""A random program's module, its batches, and what a plain loop gives for a member.

Legend: P members, M parameters.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import random_programs.held_parts as held_parts
import random_programs.parts
import random_programs.rare_parts as rare_parts
import torch
import torch.nn.functional as F
from random_programs.parts import logits
from random_programs.program import Program
from torch import Tensor, nn

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.copies import copied

Batch = tuple[Tensor, Tensor]
Run = Callable[[nn.Module, torch.dtype], Any]  # what a program makes of a member whose parameters have this type

COUNTS = ((16, 1.0), (16, 3.0), (32, 0.3), (8, 1.0))  # examples of the batches and their sizes
INVALID = (RuntimeError, ValueError, TypeError)


class Case:
    """A program's ``module``, None where it does not run by itself, and its ``batches``; ``first``: what the first one is.

    ``r``: random numbers for options, others than the program's.
    """

    def __init__(self, seed: int, program: Callable[[int], Program] = Program) -> None:
        self.seed, self.program, self.r = seed, program(seed), random.Random(-seed - 1)
        self.generator = torch.Generator().manual_seed(seed)
        self.module: nn.Module | None = None

    def make(self, first: str) -> None:
        """Make the batches, the first of which is ``first``: zero | equal | unequal, and the module."""
        names: dict[str, Any] = {"nn": nn, "torch": torch, "F": F, "parts": random_programs.parts, "rare": rare_parts}
        names["held"] = held_parts
        self.first, self.batches = first, [self.batch(*one) for one in self.program.counts or COUNTS]
        if first != "unequal":
            inputs, targets = self.batches[0]
            same = torch.zeros_like(inputs) if first == "zero" else inputs[:1].expand_as(inputs).clone()
            self.batches[0] = (same, targets)
        torch.manual_seed(self.seed)
        try:
            exec(self.program.source(), names)
            module = names["Net"]()
            with torch.no_grad():
                fitness(copied(module), *self.batches[1])
        except INVALID:
            return
        self.module = module

    def batch(self, count: int, scale: float) -> Batch:
        words = torch.randint(0, 16, (count, *self.program.shape), generator=self.generator)
        numbers = self.program.placed(scale * torch.randn(count, *self.program.shape, generator=self.generator))
        return words if self.program.kind == "words" else numbers, torch.randint(0, 3, (count,), generator=self.generator)


def fitness(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(logits(module(inputs)), targets, reduction="none")


def cast(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def on(batch: Batch) -> Run:
    """Return the mean fitness on a batch."""
    return lambda member, dtype: fitness(member, cast(batch[0], dtype), batch[1]).double().mean()


def scored(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a copy of ``module`` in the mode in which members are scored: evaluation, batch norm by its batch or frozen."""
    member = copied(module).to(dtype).train().eval()
    for part, given in zip(member.modules(), module.modules(), strict=True):
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and given.training:
            part.train(all(parameter.requires_grad for parameter in part.parameters()))
    return member


def alone(module: nn.Module, layout: ParameterLayout, flat: Tensor, run: Run, dtype: torch.dtype) -> Any:
    """Return what ``run`` makes of a copy of ``module`` with the parameters ``flat`` (M,)."""
    member = scored(module, dtype)
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        for place in layout.places:
            dict(member.named_parameters())[place.name].copy_(place.view(flat))
        return run(member, dtype)


def compared(given: np.ndarray, loop: np.ndarray, exact: np.ndarray) -> str:
    """Compare with a ``loop`` in the module's own type and an ``exact`` one in float64: right, ill or wrong and by how much.

    Numbers may differ by 1e-4 of the largest, and by three times what the loops differ; beyond that it is ill where the loops'
    difference reaches a thousandth of the members' spread.
    """
    rounding, error = np.abs(loop - exact).max(), np.abs(given - loop).max()
    if error <= 1e-4 * max(1.0, np.abs(loop).max()) + 3 * rounding:
        return "right"
    return "ill" if rounding > 1e-3 * np.ptp(loop) or not np.isfinite(exact).all() else f"wrong: by {error:.2g}"
