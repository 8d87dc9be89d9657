"""RNN, LSTM and GRU as one layer for all steps: noise on what the states add to the gates enters at each step.

A node for each step would take hundreds of small calls. Here the gates' derivatives by states, and those of the new state, are
taken for all steps at once; only the chain from step to step is a loop.

Legend: T steps, e examples, H values of a state, S states, G gates.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from neuro_cli.activation_noise.derivatives.arguments import FunctionOf
from neuro_cli.activation_noise.derivatives.backward_graph import BackwardNode, model_of
from neuro_cli.scoring.passes import recurrent
from neuro_cli.scoring.passes.recurrent import Cell, State

CELLS = {getattr(torch, name): getattr(recurrent, name) for name in ("gru", "lstm", "rnn_tanh", "rnn_relu")}


def layers(cell: Cell, *args: Any) -> Any:
    """Return outputs and last states, as of ``torch.gru`` and its like, by a :func:`scan` for each direction of each layer."""
    return partial(recurrent.layers, F.linear, cell, scan=partial(_scanned, cell))(*args)


def _scanned(cell: Cell, x: Tensor, state: State, weights: Sequence[Any], backwards: bool) -> tuple[Tensor, State]:
    of_input, weight, shift, bias = weights
    gates = F.linear(x, of_input, shift)
    first = torch.cat(state, -1)
    first = F.pad(first, (0, gates.shape[-1] - first.shape[-1]))
    states = scan(cell, torch.cat([first.unsqueeze(0), gates.flip(0) if backwards else gates]), weight, bias)
    size = weight.shape[1]
    outputs = states[..., :size]
    return outputs.flip(0) if backwards else outputs, states[-1].split(size, -1)


def scan(cell: Cell, x: Tensor, weight: Tensor, bias: Tensor | None, delta: Tensor | None = None) -> Tensor:
    """Return the states (T, e, S H) of all steps.

    ``x`` (T + 1, e, G H): the initial state with zeros behind it, and what the inputs add to the gates. ``weight`` (G H, H),
    ``bias`` (G H,): of what the state adds; ``delta`` (T, e, G H) is added to that. States have float32 at least.
    """
    if has_torch_function((x, weight, bias)):
        return handle_torch_function(scan, (x, weight, bias), cell, x, weight, bias, delta=delta)
    first, *gates = x.to(_wide(x)).unbind(0)
    state = _initial(cell, first, weight.shape[1])
    steps = []
    for step, of_input in enumerate(gates):
        own = F.linear(state[0].to(x.dtype), weight, bias)
        state = cell(of_input, own if delta is None else own + delta[step], state)
        steps.append(state)
    return torch.cat([torch.stack(part) for part in zip(*steps, strict=True)], -1).to(x.dtype)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _initial(cell: Cell, first: Tensor, size: int) -> State:
    """Return the initial state from the first row of a scan's ``x``."""
    return first.split(size, -1)[: 2 if cell is recurrent.lstm else 1]


def earlier_states(x: Tensor, states: Tensor, size: int) -> Tensor:
    """Return the states (T, e, S H) that each step of a scan of ``x`` begins with."""
    return torch.cat([x[:1, :, : states.shape[-1]], states[:-1]])


class RecurrentNode(BackwardNode):
    """A scan in the backward graph: its model is that of the product with the states, and ``outputs`` that product."""

    def __init__(
        self, cell: Cell, args: Sequence[Any], products: Tensor, states: Tensor, given: Sequence[Any], names: tuple[str, ...]
    ) -> None:
        """``args`` of the :func:`scan`, ``given`` of the linear layer that gives ``products`` (T, e, G H) of all steps."""
        x, weight, _ = args
        inputs = given[0]
        function = FunctionOf(F.linear, given, {}, inputs)
        make_model, form = model_of(F.linear, given, {}, inputs, products, True) or (None, ())
        super().__init__(products, names, None, inputs, None, make_model, form, function)
        self.result, self._type, self._size = states, x.dtype, weight.shape[1]
        wide, before = _wide(x), earlier_states(x, states, self._size)
        with torch.enable_grad():
            leaves = [part.detach().to(wide).requires_grad_() for part in (x[1:], products)]
            state = tuple(part.detach().to(wide).requires_grad_() for part in before.split(self._size, -1))
            new = cell(leaves[0], leaves[1], state)
            # each value depends on the others at its own place alone, so that a sum has the derivatives of all
            slopes = [torch.autograd.grad(part.sum(), [*leaves, *state], retain_graph=True, allow_unused=True) for part in new]
        self._by_gates, self._by_products = [row[0] for row in slopes], [row[1] for row in slopes]
        self._by_state = [row[2:] for row in slopes]

    def pull_back(self, derivative: Tensor) -> Tensor | None:
        if self.response is None or self.make_model is None:
            self.derivative = None
            return None
        parts = derivative.to(_wide(derivative)).split(self._size, -1)
        back = self.response.matrix.T.to(parts[0].dtype)
        rows = [part.unbind(0) for part in parts]
        by_products = [self._at_steps(slope) for slope in self._by_products]
        by_state = [[None if slope is None else slope.unbind(0) for slope in row] for row in self._by_state]
        carried: list[Tensor | None] = [None] * len(parts)
        totals: list[list[Tensor]] = [[] for _ in parts]
        products = []
        for step in reversed(range(len(derivative))):
            now = [row[step] if more is None else row[step] + more for row, more in zip(rows, carried, strict=True)]
            product = _sum([by[step] * part.unsqueeze(-2) for by, part in zip(by_products, now, strict=True)])
            product = product.flatten(-2)
            products.append(product)
            for place, part in enumerate(now):
                totals[place].append(part)
            carried = [
                _sum([by[place][step] * part for by, part in zip(by_state, now, strict=True) if by[place] is not None])
                for place in range(len(now))
            ]
            through = product @ back
            carried[0] = through if carried[0] is None else carried[0] + through
        self.derivative = torch.stack(products[::-1])
        by_gates = self.derivative
        if any(one is not other for one, other in zip(self._by_gates, self._by_products, strict=True)):
            of_all = [torch.stack(part[::-1]).unsqueeze(-2) for part in totals]
            by_gates = _sum([by.unflatten(-1, (-1, self._size)) * part for by, part in zip(self._by_gates, of_all, strict=True)])
            by_gates = by_gates.flatten(-2)
        first = torch.cat([torch.zeros_like(now[0]) if part is None else part for part in carried], -1)
        first = F.pad(first, (0, by_gates.shape[-1] - first.shape[-1]))
        return torch.cat([first.unsqueeze(0), by_gates]).to(self._type)

    def _at_steps(self, slope: Tensor) -> Sequence[Tensor]:
        return slope.unflatten(-1, (-1, self._size)).unbind(0)


def _sum(parts: Sequence[Tensor]) -> Any:
    """Return the sum, None for no part."""
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
