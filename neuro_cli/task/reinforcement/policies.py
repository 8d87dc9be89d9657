"""Many policies that answer side by side, one row of a batch each.

A chain of linear layers with tanh, ReLU or sigmoid between them (:class:`torch.nn.Sequential`) is worked out by compiled
loops for all members in one call; any other module is asked member by member.

A policy with a memory has a method ``reset(count)``, which gives the states of ``count`` episodes that begin: a tensor, or a
tuple of tensors, with a row for each. Its ``forward(observations, states)`` gives outputs and the next states, which the caller
keeps.

Legend: W policies, M parameters, n rows, e episodes of a policy, I inputs, O outputs.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.lazy import LazyModule

log = logging.getLogger(__name__)
kernels = LazyModule("neuro_cli.task.reinforcement.policy_kernels")

ACTIVATIONS = {nn.Tanh: "TANH", nn.ReLU: "RELU", nn.Sigmoid: "SIGMOID"}  # names of what the compiled loops apply


class Policies(Protocol):
    def act(self, observations: np.ndarray, which: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return outputs (n, O) float32 for ``observations`` (n, I) float32 of episode ``places`` (n,) of policy ``which`` (n,).

        A row's bits depend on its policy and its observation only. Good until the next call.
        """


@dataclass(frozen=True)
class Chain:
    """Linear layers, one after the other: ``layers`` (L, 5) as :func:`policy_kernels.lay_out` takes them."""

    layers: np.ndarray

    @property
    def inputs(self) -> int:
        return int(self.layers[0, 0])

    @property
    def outputs(self) -> int:
        return int(self.layers[-1, 1])


def chain_of(module: nn.Module, layout: ParameterLayout) -> Chain | None:
    """Return the linear layers of ``module``, or None if it is something else."""
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
        return None
    places = {place.name: place for place in layout.places}
    rows: list[list[int]] = []
    for name, part in module.named_children():
        weight, bias = places.get(f"{name}.weight"), places.get(f"{name}.bias")
        if type(part) is nn.Linear and weight is not None and (bias is not None or part.bias is None):
            start = -1 if bias is None else bias.start
            rows.append([part.in_features, part.out_features, weight.start, start, kernels.LINEAR])
        elif type(part) in ACTIVATIONS and rows and rows[-1][4] == kernels.LINEAR:
            rows[-1][4] = getattr(kernels, ACTIVATIONS[type(part)])
        elif not (isinstance(part, nn.Flatten | nn.Identity) and not rows):
            return None
    fits = all(one[1] == other[0] for one, other in pairwise(rows))
    return Chain(np.array(rows, np.int64)) if rows and fits else None


class ChainPolicies:
    """Policies of one chain with the flat vectors ``flats`` (W, M) float32."""

    def __init__(self, chain: Chain, flats: np.ndarray) -> None:
        self._chain = chain
        size = int(((chain.layers[:, 0] + 1) * chain.layers[:, 1]).sum())
        self._parameters = np.empty((len(flats), size), np.float32)
        kernels.lay_out(chain.layers, flats, self._parameters)
        self._widest = int(chain.layers[:, :2].max())

    @property
    def chain(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Layers, parameters and the greatest width, as :func:`policy_kernels.act` takes them."""
        return self._chain.layers, self._parameters, self._widest

    def act(self, observations: np.ndarray, which: np.ndarray, places: np.ndarray) -> np.ndarray:
        out = np.empty((len(observations), self._chain.outputs), np.float32)
        kernels.act(self._chain.layers, self._parameters, which, observations, out, self._widest)
        return out


class ModulePolicies:
    """Policies by modules, each asked for all of its ``episodes`` at once, over or not: matrix products of other sizes may
    round otherwise, and an answer must not depend on which episodes still run. States of the others stay as they are."""

    def __init__(self, modules: Sequence[nn.Module], episodes: int, shape: tuple[int, ...]) -> None:
        self.modules, self._shape = modules, shape
        self._seen = np.zeros((len(modules), episodes, int(np.prod(shape))), np.float32)
        parameter = next(modules[0].parameters(), None)
        self._device = torch.device("cpu") if parameter is None else parameter.device
        self._states = [starting_states(module, episodes) for module in modules]

    def act(self, observations: np.ndarray, which: np.ndarray, places: np.ndarray) -> np.ndarray:
        self._seen[which, places] = observations
        made: dict[int, np.ndarray] = {}
        with torch.no_grad():
            for policy in np.unique(which):
                seen = torch.from_numpy(self._seen[policy]).view(-1, *self._shape).to(self._device)
                made[policy], states = answer(self.modules[policy], seen, self._states[policy])
                if states is not None:
                    asked = torch.from_numpy(places[which == policy]).to(self._device)
                    self._states[policy] = tree_map(partial(_moved, asked), self._states[policy], states)
        return np.stack([made[policy][place] for policy, place in zip(which, places, strict=True)])


def _moved(asked: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Return states ``before``, with those in ``after`` for the episodes ``asked`` (k,)."""
    return before.index_copy(0, asked, after[asked])


def starting_states(module: nn.Module, episodes: int) -> Any:
    """Return the first states of a policy with a memory, None for one without. Raises UserError."""
    reset = getattr(module, "reset", None)
    if not callable(reset):
        return None
    try:
        states = reset(episodes)
    except Exception as error:  # a user's module may have a method of that name for something else
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"model: reset({episodes}) must give the states of episodes that begin: {reason}") from error
    if not all(isinstance(part, Tensor) and part.dim() and len(part) == episodes for part in tree_flatten(states)[0]):
        raise UserError(f"model: reset({episodes}) must give a tensor, or a tuple of them, with {episodes} rows")
    return states


def answer(module: nn.Module, observations: Tensor, states: Any = None) -> tuple[np.ndarray, Any]:
    """Return outputs (B, O) float32 of ``module`` for ``observations`` (B, ..), and next states, None without a memory.

    Raises UserError when it does not take them.
    """
    shape = "x".join(map(str, observations.shape[1:]))
    try:
        made = module(observations) if states is None else module(observations, states)
    except Exception as error:  # a user's module may check its input in any way
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"model: it does not take observations of {shape} numbers: {reason}") from error
    if states is not None:
        made, states = _parted(made, states)
    if not isinstance(made, Tensor) or made.dim() != 2 or len(made) != len(observations):
        what = "x".join(map(str, made.shape)) if isinstance(made, Tensor) else type(made).__name__
        raise UserError(f"model: its output for {len(observations)} observations is {what}; rows of actions are needed")
    return made.float().cpu().numpy(), states


def _parted(made: Any, before: Any) -> tuple[Any, Any]:
    """Return outputs and next states, which must be of the kind of ``before``. Raises UserError."""
    if isinstance(made, tuple) and len(made) == 2:
        (old, form), (new, form_now) = tree_flatten(before), tree_flatten(made[1])
        alike = (isinstance(b, Tensor) and (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(old, new, strict=True))
        if form == form_now and all(alike):
            return made
    raise UserError("model: a policy with reset() gives its outputs and its next states, alike to what reset() gave")


def policies_of(module: nn.Module, episodes: int, shape: tuple[int, ...]) -> Policies:
    """Return one policy: ``module`` with its own parameters."""
    if any(parameter.requires_grad for parameter in module.parameters()):
        layout = ParameterLayout(module)
        chain = chain_of(module, layout)
        if chain is not None and chain.inputs == int(np.prod(shape)):
            return ChainPolicies(chain, layout.flatten(module)[None].cpu().numpy())
    return ModulePolicies([module], episodes, shape)
