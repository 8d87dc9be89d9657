"""Policies of many members, answering one row of a batch each.

Compiled loops compute a chain of linear layers with tanh, ReLU or sigmoid between them (:class:`torch.nn.Sequential`) for all
members in one call. Any other module answers member by member.

A policy with a memory has a method ``reset(count)``, which returns the first states of ``count`` episodes: a tensor, or a tuple
of tensors, with a row for each. Its ``forward(observations, states)`` returns outputs and the next states, which the caller
stores.

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
from neuro_cli.core.module.gain import Gain

log = logging.getLogger(__name__)
kernels = LazyModule("neuro_cli.task.reinforcement.policy_kernels")

ACTIVATIONS = {nn.Tanh: "TANH", nn.ReLU: "RELU", nn.Sigmoid: "SIGMOID", Gain: "GAIN"}  # their names in the compiled loops


class Policies(Protocol):
    def act(self, observations: np.ndarray, which: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return outputs (n, O) float32 for ``observations`` (n, I) float32, each of an episode of policy ``which``.

        A row's bits depend only on its policy and its observation. The result is valid until the next call.
        """


@dataclass(frozen=True)
class Chain:
    """Chain of a policy's linear layers: ``layers`` (L, 5) as :func:`policy_kernels.lay_out` takes them."""

    layers: np.ndarray

    @property
    def inputs(self) -> int:
        return int(self.layers[0, 0])

    @property
    def outputs(self) -> int:
        return outputs_of(self.layers[-1])


def outputs_of(layer: Sequence[int]) -> int:
    """Return how many outputs a row (5,) of a chain leaves to the next."""
    return int(kernels.remaining(layer[1], layer[4]))


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
    fits = all(outputs_of(one) == other[0] for one, other in pairwise(rows))
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
        """Layers, parameters and the greatest width, in the form that :func:`policy_kernels.act` takes."""
        return self._chain.layers, self._parameters, self._widest

    def act(self, observations: np.ndarray, which: np.ndarray, places: np.ndarray) -> np.ndarray:
        out = np.empty((len(observations), self._chain.outputs), np.float32)
        kernels.act(self._chain.layers, self._parameters, which, observations, out, self._widest)
        return out


class ModulePolicies:
    """Policies that are modules. Each answers for all of its ``episodes`` at once, ended or not.

    Matrix products of other sizes may round differently, and an answer must not depend on which episodes still run. States of
    the episodes that are not asked stay.
    """

    def __init__(self, modules: Sequence[nn.Module], episodes: int, shape: tuple[int, ...]) -> None:
        self.modules, self._shape = modules, shape
        self._seen = np.zeros((len(modules), episodes, int(np.prod(shape))), np.float32)
        parameter = next(modules[0].parameters(), None)
        self._device = torch.device("cpu") if parameter is None else parameter.device
        self._states = [starting_states(module, episodes) for module in modules]

    def act(self, observations: np.ndarray, which: np.ndarray, places: np.ndarray) -> np.ndarray:
        self._seen[which, places] = observations
        outputs: dict[int, np.ndarray] = {}
        with torch.no_grad():
            for policy in np.unique(which):
                observed = torch.from_numpy(self._seen[policy]).view(-1, *self._shape).to(self._device)
                outputs[policy], states = answer(self.modules[policy], observed, self._states[policy])
                if states is not None:
                    asked = torch.from_numpy(places[which == policy]).to(self._device)
                    self._states[policy] = tree_map(partial(_moved, asked), self._states[policy], states)
        return np.stack([outputs[policy][place] for policy, place in zip(which, places, strict=True)])


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

    Raises UserError if it does not take them.
    """
    shape = "x".join(map(str, observations.shape[1:]))
    try:
        outputs = module(observations) if states is None else module(observations, states)
    except Exception as error:  # a user's module may check its input in any way
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"model: it does not take observations of {shape} numbers: {reason}") from error
    if states is not None:
        outputs, states = _parted(outputs, states)
    if not isinstance(outputs, Tensor) or outputs.dim() != 2 or len(outputs) != len(observations):
        what = "x".join(map(str, outputs.shape)) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise UserError(f"model: its output for {len(observations)} observations is {what}; rows of actions are needed")
    return outputs.float().cpu().numpy(), states


def _parted(result: Any, before: Any) -> tuple[Any, Any]:
    """Return outputs and next states, which must be of the kind of ``before``. Raises UserError."""
    if isinstance(result, tuple) and len(result) == 2:
        (old, form), (new, form_now) = tree_flatten(before), tree_flatten(result[1])
        alike = (isinstance(b, Tensor) and (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(old, new, strict=True))
        if form == form_now and all(alike):
            return result
    raise UserError("model: a policy with reset() gives its outputs and its next states, shaped as reset() gave them")


def policies_of(module: nn.Module, episodes: int, shape: tuple[int, ...]) -> Policies:
    """Return the policy ``module`` alone, with its own parameters."""
    if any(parameter.requires_grad for parameter in module.parameters()):
        layout = ParameterLayout(module)
        chain = chain_of(module, layout)
        if chain is not None and chain.inputs == int(np.prod(shape)):
            return ChainPolicies(chain, layout.flatten(module)[None].cpu().numpy())
    return ModulePolicies([module], episodes, shape)
