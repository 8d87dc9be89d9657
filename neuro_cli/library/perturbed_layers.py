"""Perturbed layers without an algorithm or ranks: one forward pass for many members, and the sum for an update.

The two calls cover what the noise-reuse paper's library offers.
"""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Modes, Threads, threads_kept
from neuro_cli.core.module.torch_errors import advice
from neuro_cli.core.noise import Noise
from neuro_cli.core.seeds import Generators
from neuro_cli.library.named import option
from neuro_cli.sampler.base import Estimator, Sampler
from neuro_cli.scoring.answers import Answers, Given
from neuro_cli.scoring.candidate import brief
from neuro_cli.scoring.modes import refuse_computed_by_modes
from neuro_cli.scoring.passes.forward import answered_by

STALE = "it answers otherwise than its copy: a cache outside of it, as of functools, has numbers of the centre: clear it before"
log = logging.getLogger(__name__)

# the way that the first call's trial chose for a module, by the signature of the call; later contexts reuse it
_WAYS: "WeakKeyDictionary[nn.Module, dict[Any, Any]]" = WeakKeyDictionary()


class perturbed:
    """Context in which ``module`` answers for P ``members``, member i with the parameters theta + ``sigma`` * eps_i.

    The module takes P * e rows and returns as many, e consecutive ones for each member; with ``shared`` it takes e rows, and
    every member answers all of them. Every input tensor of the first one's length is split into rows alike; an output with one
    number for each member is (P,). ``sampler``: a name or an object. Noise is a function of (``seed``, ``generation``). Gradients
    do not flow. Layers and products with a weight are perturbed for all members at once. The first call compares this with
    single members. If the results differ, members answer one by one, and a line in the log says why. The module's buffers are
    restored afterwards. Raises ConfigError; inside, UserError.
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
        refuse_computed_by_modes(module)
        self._sampler = _on_parameters(sampler)
        device = next(module.parameters()).device
        with threads_kept():
            noise = Noise(integer("seed", seed, 0, 2**64 - 1), self._layout.size, device, Threads(1))
            self._sampler.bind(noise, members, self._layout)
        period = self._sampler.noise_period
        if period is not None and self._sampler.directions > period:
            raise ConfigError("members", members, f"the sampler has new noise for every {period} directions: at most so many")
        self._left = ExitStack()

    def __enter__(self) -> "perturbed":
        self._forward = self._module.forward
        self._left.enter_context(answered_by(self._module, self._answer))
        self._guard()
        return self

    def __exit__(self, *_: object) -> None:
        self._unguard()
        self._left.close()

    def _guard(self) -> None:
        """Let parts of the module refuse calls that do not come from its own forward pass: they would answer without noise."""

        def refuse(part: nn.Module, *_: Any) -> None:
            name = next((path for path, each in self._module.named_modules() if each is part), "a part")
            whose = type(self._module).__name__
            raise UserError(
                f"perturbed: {name} of {whose} is called outside of the forward pass of {whose}, where nothing is perturbed: "
                "give perturbed a module whose forward does what you call"
            )

        parts = [part for part in self._module.modules() if part is not self._module]
        self._guards = [part.register_forward_pre_hook(refuse) for part in parts if not isinstance(part, torch.jit.ScriptModule)]

    def _unguard(self) -> None:
        for guard in self._guards:
            guard.remove()

    def _answer(self, *args: Any, **kwargs: Any) -> Any:
        self._unguard()
        try:
            return self._answered(*args, **kwargs)
        finally:
            self._guard()

    def _answered(self, *args: Any, **kwargs: Any) -> Any:
        given = Given(args, kwargs, self.members, self._shared)
        modes = Modes.present()  # the caller's autocast is meant for the module
        with answered_by(self._module, self._forward), threads_kept(), modes.entered(), torch.no_grad():
            self._sampler.prepare(self._generation, range(self._sampler.directions))
            answers = Answers(self._module, self._layout, self._sampler, self._generation, self.sigma, given)
            ways = _WAYS.setdefault(self._module, {})
            signature = self._signature(args, kwargs)
            # equal rows hide an exchange between members, so different rows have a trial of their own
            key = (signature, True) if (signature, True) in ways else (signature, given.differ())
            if first := key not in ways:
                ways[key] = answers.tried()
                self._say(ways[key].reason)
            try:
                before = Generators()
                made = answers.made(ways[key], self._say)
                if first and answers.is_stale(made, ways[key], before):
                    raise UserError(STALE)
                return made
            except Exception as error:  # the module's own code may raise anything
                reason = advice(error) or brief(error)
                raise UserError(f"perturbed: {type(self._module).__name__}: {reason}") from error

    def _say(self, reason: str | None) -> None:
        if reason is not None:
            log.warning("perturbed: members answer one by one, slower: %s: %s", type(self._module).__name__, reason)

    def _signature(self, args: Any, kwargs: Any) -> Any:
        """Return what identifies a call: shapes and types of the inputs, modes of the parts, noise, autocast."""
        leaves, form = tree_flatten((args, kwargs))
        inputs = tuple(
            (value.shape, value.dtype, value.device) if isinstance(value, Tensor)
            else (type(value), value if isinstance(value, bool | str) else None)
            for value in leaves
        )  # fmt: skip
        parts = tuple((id(part), part.training) for part in self._module.modules())
        device = next(self._module.parameters())
        autocast = (torch.is_autocast_enabled(device.device.type), torch.get_autocast_dtype(device.device.type))
        plain = {key: value for key, value in vars(self._sampler).items() if isinstance(value, bool | int | float | str)}
        noise = (type(self._sampler), tuple(sorted(plain.items())), self.members, self._shared)
        return inputs, str(form), parts, device.dtype, autocast, noise

    def combine(self, weights: Sequence[float] | np.ndarray | Tensor) -> dict[str, Tensor]:
        """Return the sum over members of weights[i] * eps_i, by the names and in the shapes of the module's parameters.

        ``weights`` (P,). With fitnesses as weights, this sum over P * sigma estimates the gradient of the expected fitness.
        Raises UserError for another number of weights.
        """
        values = weights.detach().cpu().numpy() if isinstance(weights, Tensor) else np.asarray(weights)
        if values.shape != (self.members,):
            raise UserError(f"combine: weights of shape {values.shape} for {self.members} members")
        with threads_kept():
            row = values.astype(np.float64)[None]
            sums = self._sampler.combine(row, (1,), self._generation, range(self.members), 0, self._layout.size)
        return {place.name: view for place, view in zip(self._layout.places, self._layout.views(sums[0]), strict=True)}


def _on_parameters(sampler: str | Sampler) -> Sampler:
    """Return the sampler. Raises ConfigError for noise on activations, whose members have no parameters of their own."""
    result = option("sampler", sampler, Estimator, None)
    if not isinstance(result, Sampler):
        name = sampler if isinstance(sampler, str) else type(sampler).__name__
        raise ConfigError("sampler", name, "its noise is on activations; perturbed needs one whose members have parameters")
    return result
