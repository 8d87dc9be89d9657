"""RNN, LSTM and GRU step by step, in terms of linear layers: torch's own are one operation each, weights included.

Legend: T steps, e examples, H values of a state.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.kernels.compiled import own_recurrence_kernels
from neuro_cli.scoring.passes.operators import Unsupported

PACKED = "a packed sequence has no row for each example: give the padded one, and pick a last step by its length"
Linear = Callable[[Tensor, Any, Any], Tensor]
State = tuple[Tensor, ...]


def gru(gates: Tensor, own: Tensor, state: State) -> State:
    """New state (h,) from what the input (.., 3 H) and the old state (.., 3 H) add to the gates."""
    (reset_in, update_in, new_in), (reset, update, new) = gates.chunk(3, -1), own.chunk(3, -1)
    held = torch.sigmoid(update_in + update)
    result = torch.tanh(new_in + torch.sigmoid(reset_in + reset) * new)
    return (result + held * (state[0] - result),)


def lstm(gates: Tensor, own: Tensor, state: State) -> State:
    """New state (h, c); gates (.., 4 H)."""
    taken, kept, new, shown = (gates + own).chunk(4, -1)
    cell = torch.sigmoid(kept) * state[1] + torch.sigmoid(taken) * torch.tanh(new)
    return torch.sigmoid(shown) * torch.tanh(cell), cell


def rnn_tanh(gates: Tensor, own: Tensor, state: State) -> State:
    return (torch.tanh(gates + own),)


def rnn_relu(gates: Tensor, own: Tensor, state: State) -> State:
    return (torch.relu(gates + own),)


Cell = Callable[[Tensor, Tensor, State], State]
# outputs and last state from the input, the state, weights with biases, and whether it runs backwards; None: step by step
Scan = Callable[[Tensor, State, Sequence[Any], bool], tuple[Tensor, State] | None]


def layers(
    linear: Linear, cell: Cell, input: Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool, scan: Scan | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return outputs and last states, as of ``torch.gru`` and its like. Raises Unsupported for packed sequences.

    ``scan``: all steps of a direction in one call, in place of one after the other; it has no projected states.
    """
    if not isinstance(has_biases, bool):  # sizes of batches stand before the state, so that weights come one place later
        raise Unsupported(PACKED)
    x = input.transpose(0, 1) if batch_first else input
    first = tuple(hx) if isinstance(hx, list | tuple) else (hx,)
    runs = num_layers * (1 + bidirectional)
    weights = [params[run * len(params) // runs : (run + 1) * len(params) // runs] for run in range(runs)]
    last: list[State] = []
    for layer in range(num_layers):
        outputs = []
        for backwards in range(1 + bidirectional):
            state = tuple(part[len(last)] for part in first)
            result, state = _direction(linear, cell, x, state, weights[len(last)], has_biases, bool(backwards), scan)
            outputs.append(result)
            last.append(state)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if layer < num_layers - 1:
            x = F.dropout(x, dropout, train)
    states = [torch.stack(part) for part in zip(*last, strict=True)]
    return (x.transpose(0, 1) if batch_first else x, *states)


def _direction(
    linear: Linear,
    cell: Cell,
    x: Tensor,
    state: State,
    weights: Sequence[Any],
    has_biases: bool,
    backwards: bool,
    scan: Scan | None,
) -> tuple[Tensor, State]:
    """Return one layer in one direction: outputs (T, e, H) and the last state."""
    of_input, of_state, *rest = weights
    biases = [rest.pop(0), rest.pop(0)] if has_biases else [None, None]
    made = None if scan is None or rest else scan(x, state, (of_input, of_state, *biases), backwards)
    if made is not None:
        return made
    gates = linear(x, of_input, biases[0])
    outputs: list[Tensor] = []
    for step in reversed(range(len(gates))) if backwards else range(len(gates)):
        state = cell(gates[step], linear(state[0], of_state, biases[1]), state)
        if rest:  # an LSTM with a projected state
            state = (linear(state[0], rest[0], None), *state[1:])
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backwards else outputs), state


def one_step(linear: Linear, cell: Cell, input: Tensor, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Next state, as of ``torch.gru_cell`` and its like."""
    state = tuple(hx) if isinstance(hx, list | tuple) else (hx,)
    result = cell(linear(input, w_ih, b_ih), linear(state[0], w_hh, b_hh), state)
    return result if len(result) > 1 else result[0]


def rows_first(linear: Linear) -> Linear:
    """Return ``linear`` for steps (T, n, ..) of rows, which takes rows (n, T, ..)."""

    def steps(x: Tensor, weight: Any, bias: Any) -> Tensor:
        return linear(x, weight, bias) if x.dim() < 3 else linear(x.transpose(0, 1), weight, bias).transpose(0, 1)

    return steps


CELLS = (gru, lstm, rnn_tanh, rnn_relu)
# functions of torch: their steps, and the cell of each
FUNCTIONS: dict[Any, tuple[Callable[..., Any], Cell]] = {
    **{getattr(torch, cell.__name__): (layers, cell) for cell in CELLS},
    **{getattr(torch, f"{cell.__name__}_cell"): (one_step, cell) for cell in CELLS},
}


def by_loops(cell: Cell) -> Cell:
    """Return ``cell``, in float32 on a CPU by a compiled loop with one pass over memory."""

    def new_state(gates: Tensor, own: Tensor, state: State) -> State:
        if any(part.dtype != torch.float32 or part.device.type != "cpu" for part in (gates, own, *state)):
            return cell(gates, own, state)
        # an LSTM's state is read by its products alone, and a projected one has another width
        made = tuple((part if len(state) == 1 else state[-1]).clone(memory_format=torch.contiguous_format) for part in state)
        arrays = gates.numpy(), own.numpy(), made[0].numpy(), made[-1].numpy()
        own_recurrence_kernels.advance(CELLS.index(cell), *arrays)
        return made

    return new_state
