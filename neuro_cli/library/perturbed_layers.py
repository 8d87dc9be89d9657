"""Perturbed layers alone: one forward pass of a module that answers for many members, and the sum for an update.

What the noise-reuse paper's library offers, in two calls, for loops that need no algorithm and no ranks of ours.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads, threads_kept
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.library.named import option
from neuro_cli.sampler.base import Perturbation, Sampler
from neuro_cli.scoring.mapped import MappedForward
from neuro_cli.scoring.operators import Unsupported
from neuro_cli.scoring.perturbed import PerturbedForward


class perturbed:
    """Context in which ``module`` answers for P ``members``, member i with the parameters theta + ``sigma`` * eps_i.

    The module gets P * e rows and gives as many, e after another for each member; with ``shared`` it gets e rows, and every
    member answers them all. ``sampler``: a name or an object. Noise is a function of (``seed``, ``generation``). Gradients do not
    flow. Layers and products with a weight are perturbed for all members at once; a parameter in any other use is replaced by its
    members' values. Raises ConfigError; inside, UserError that names a parameter too large for that (over 262,144 values).
    """

    def __init__(
        self,
        module: nn.Module,
        sampler: str | Sampler,
        members: int,
        *,
        sigma: float = 0.05,
        seed: int = 1,
        generation: int = 0,
        shared: bool = False,
    ) -> None:
        self.members = integer("members", members, 1, 2**32 - 1)
        self.sigma = number("sigma", sigma, above=0.0)
        self._generation, self._shared, self._module = integer("generation", generation, 0, 2**32 - 1), shared, module
        self._layout = ParameterLayout(module)
        self._sampler: Sampler = option("sampler", sampler, Sampler, None)
        device = next(module.parameters()).device
        with threads_kept():
            noise = Noise(integer("seed", seed, 0, 2**64 - 1), self._layout.size, device, Threads(1))
            self._sampler.bind(noise, members, self._layout)
        period = self._sampler.noise_period
        if period is not None and self._sampler.directions > period:
            raise ConfigError("members", members, f"the sampler has new noise for every {period} directions: at most so many")
        self._sides = 2 if self._sampler.antithetic else 1
        self._fast = True  # until the module refuses the faster of two ways

    def __enter__(self) -> "perturbed":
        self._own, self._forward = self._module.__dict__.get("forward"), self._module.forward
        self._module.forward = self._answer
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        self._module.__dict__.pop("forward", None)
        if self._own is not None:
            self._module.forward = self._own

    def _answer(self, *inputs: Any, **named: Any) -> Any:
        x, *others = inputs
        rows, x = self._rows_of(x)
        dtype = x.dtype if x.is_floating_point() else next(self._module.parameters()).dtype
        with threads_kept():
            self._sampler.prepare(self._generation, range(rows.directions))
            perturbation = self._sampler.perturbation(self._generation, 0, rows, dtype)
        self._restore()
        try:
            outputs = self._outputs(perturbation, (x, *others), named)
        finally:
            self._module.forward = self._answer
        return tree_map(self._by_member, outputs) if self._sides == 2 else outputs

    def _rows_of(self, x: Tensor) -> tuple[MemberBatch, Tensor]:
        """The rows of a pass and its input, side after side. Raises UserError for a number of rows that does not fit."""
        count = len(x) * (self.members if self._shared else 1)
        if len(x) == 0 or count % self.members:
            raise UserError(f"perturbed: {len(x)} rows for {self.members} members; as many for each are needed (or shared=True)")
        examples, directions = count // self.members, self._sampler.directions
        if self._shared:
            x = x.repeat(directions, *[1] * (x.dim() - 1))  # both sides of a direction share the first layers' work
        elif self._sides == 2:
            x = x.unflatten(0, (directions, 2, examples)).transpose(0, 1).flatten(0, 2)
        return MemberBatch([self.sigma, -self.sigma][: self._sides], directions, examples), x

    def _outputs(self, perturbation: Perturbation, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Outputs of the module, side after side, in the fastest way that serves it."""
        with torch.no_grad():
            if self._fast:
                try:
                    with PerturbedForward(self._module, self._layout, perturbation):
                        return self._module.forward(*inputs, **named)
                except Unsupported:
                    self._fast = False
            with MappedForward(self._module, self._layout, perturbation):
                return self._module.forward(*inputs, **named)

    def _by_member(self, output: Any) -> Any:
        """Rows of a member after those of the one before."""
        if not isinstance(output, Tensor):
            return output
        return output.unflatten(0, (2, self._sampler.directions, -1)).transpose(0, 1).flatten(0, 2)

    def combine(self, weights: Sequence[float] | np.ndarray | Tensor) -> dict[str, Tensor]:
        """Sums over the members of weights[i] * eps_i, by the names of the module's parameters and in their shapes.

        ``weights`` (P,). Divided by P * sigma it is the estimate of the gradient of what the weights are fitnesses of.
        Raises UserError for another number of weights.
        """
        values = weights.detach().cpu().numpy() if isinstance(weights, Tensor) else np.asarray(weights)
        if values.shape != (self.members,):
            raise UserError(f"combine: weights of shape {values.shape} for {self.members} members")
        with threads_kept():
            row = values.astype(np.float64)[None]
            sums = self._sampler.combine(row, (1,), self._generation, range(self.members), 0, self._layout.size)
        return {place.name: view for place, view in zip(self._layout.places, self._layout.views(sums[0]), strict=True)}
