"""Perturbed layers alone: one forward pass of a module that answers for many members, and the sum for an update.

What the noise-reuse paper's library offers, in two calls, for loops that need no algorithm and no ranks of ours.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.threads import Threads, threads_kept
from neuro_cli.library.named import option
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.perturbed import PerturbedForward


class perturbed:
    """Context in which ``module`` answers for P ``members``, member i with the parameters theta + ``sigma`` * eps_i.

    The module gets P * e rows and gives as many, e after another for each member; with ``shared`` it gets e rows, and every
    member answers them all. ``sampler``: a name or an object. Noise is a function of (``seed``, ``generation``). Linear layers,
    two-dimensional convolutions and norms are perturbed for all members at once; gradients do not flow. Raises ConfigError;
    inside, UserError for a module that uses a parameter in another way.
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
        self._hooks: list[Any] = []
        self._mode: PerturbedForward | None = None

    def __enter__(self) -> "perturbed":
        before = self._module.register_forward_pre_hook(self._before)
        self._hooks = [before, self._module.register_forward_hook(self._after, always_call=True)]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._leave()

    def _before(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x = inputs[0]
        count = len(x) * (self.members if self._shared else 1)
        if len(x) == 0 or count % self.members:
            raise UserError(f"perturbed: {len(x)} rows for {self.members} members; as many for each are needed (or shared=True)")
        examples, directions = count // self.members, self._sampler.directions
        rows = MemberBatch([self.sigma, -self.sigma][: self._sides], directions, examples)
        if self._shared:
            x = x.repeat(directions, *[1] * (x.dim() - 1))  # both sides of a direction share the first layers' work
        elif self._sides == 2:
            x = x.unflatten(0, (directions, 2, examples)).transpose(0, 1).flatten(0, 2)
        with threads_kept():
            self._sampler.prepare(self._generation, range(directions))
            perturbation = self._sampler.perturbation(self._generation, 0, rows, x.dtype)
        self._grad = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self._mode = PerturbedForward(module, self._layout, perturbation)
        self._mode.__enter__()
        return (x, *inputs[1:])

    def _after(self, module: nn.Module, inputs: Any, outputs: Any) -> Any:
        self._leave()
        if self._sides == 1 or not isinstance(outputs, Tensor):
            return outputs
        directions = self._sampler.directions
        return outputs.unflatten(0, (2, directions, -1)).transpose(0, 1).flatten(0, 2)

    def _leave(self) -> None:
        if self._mode is not None:
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)
            torch.set_grad_enabled(self._grad)

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
