"""Recurrent layers with each member's own weights: all steps of a member, whose weights are computed once (numba).

A vector has LANES numbers of a state. Gates and states of a row are lines of ``width`` numbers: H, up to a multiple of LANES.

Legend: S sides, D directions, e examples, T steps, I inputs, H numbers of a state, G gates.
"""

import numba as nb
import numpy as np
from numba.core import types

from neuro_cli.core.kernels.activations import relu, tanh
from neuro_cli.core.kernels.lanes import added, put_in_lanes, same, vector_at
from neuro_cli.core.kernels.tiles import displace, tile
from neuro_cli.core.kernels.vectors import LANES, by_address, has_avx512, size

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_FLOAT, _LINE = nb.uintp(4), nb.uintp(4 * LANES)
GRU, LSTM, TANH, RELU = range(4)
GATES = (3, 4, 1, 1)
FEW, PANELS = 4, 2 if has_avx512() else 1  # rows of a tile, as members have few, and vectors of gates: half of the registers
few_rows, few_of_one_panel = tile(PANELS, FEW), tile(1, FEW)


def _sigmoid(builder, x):
    return added(builder, same(0.5), tanh(builder, builder.fmul(x, same(0.5))), same(0.5))


def _cell(new):
    @by_address(*[types.uintp] * 5)
    def law(builder, of_input, of_state, apart, state, memory):
        """Replace LANES numbers of a state, and of an LSTM's memory; what is added to its gates lies ``apart`` bytes apart."""

        def parts(gate):
            places = (builder.add(part, builder.mul(apart, size(gate))) for part in (of_input, of_state))
            return [builder.load(vector_at(builder, place), align=4) for place in places]

        places = [vector_at(builder, place) for place in (state, memory)]
        made = new(builder, parts, *(builder.load(place, align=4) for place in places))
        for value, place in zip(made, places, strict=False):
            builder.store(value, place, align=4)

    return law


def _gru(builder, parts, state, _):
    reset, held = (_sigmoid(builder, builder.fadd(*parts(gate))) for gate in range(2))
    of_input, of_state = parts(2)
    result = tanh(builder, added(builder, of_input, reset, of_state))
    return (added(builder, result, held, builder.fsub(state, result)),)


def _lstm(builder, parts, _, memory):
    taken, kept, new, shown = (builder.fadd(*parts(gate)) for gate in range(4))
    new = builder.fmul(_sigmoid(builder, taken), tanh(builder, new))
    memory = added(builder, new, _sigmoid(builder, kept), memory)
    return builder.fmul(_sigmoid(builder, shown), tanh(builder, memory)), memory


gru_cell, lstm_cell = _cell(_gru), _cell(_lstm)
tanh_cell = _cell(lambda builder, parts, *_: (tanh(builder, builder.fadd(*parts(0))),))
relu_cell = _cell(lambda builder, parts, *_: (relu(builder, builder.fadd(*parts(0))),))


@_compiled
def _advance(kind, of_input, of_state, apart, vectors, state, memory):
    """Replace ``vectors`` times LANES numbers of a state at an address; gates lie ``apart`` bytes apart."""
    for _ in range(vectors):
        if kind == GRU:
            gru_cell(of_input, of_state, apart, state, memory)
        elif kind == LSTM:
            lstm_cell(of_input, of_state, apart, state, memory)
        elif kind == TANH:
            tanh_cell(of_input, of_state, apart, state, memory)
        else:
            relu_cell(of_input, of_state, apart, state, memory)
        of_input, of_state, state, memory = of_input + _LINE, of_state + _LINE, state + _LINE, memory + _LINE


@_compiled
def advance(kind, of_input, of_state, state, memory):
    """Replace states (n, H), and an LSTM's memory (n, H), by what input and state (n, G H) add to the gates; float32."""
    (rows, count), gates = state.shape, GATES[kind]
    assert of_input.shape == of_state.shape == (rows, gates * count) and memory.shape == state.shape
    assert of_input.itemsize == of_state.itemsize == state.itemsize == memory.itemsize == 4
    assert of_input.strides[1] == of_state.strides[1] == 4 and state.flags.c_contiguous and memory.flags.c_contiguous
    done = count // LANES * LANES
    one, other = np.zeros((gates, LANES), np.float32), np.zeros((gates, LANES), np.float32)  # the numbers behind ``done``
    near, far = np.zeros((1, LANES), np.float32), np.zeros((1, LANES), np.float32)
    for row in range(rows):
        if done:
            places = nb.uintp(of_input[row].ctypes.data), nb.uintp(of_state[row].ctypes.data)
            own = nb.uintp(state[row].ctypes.data), nb.uintp(memory[row].ctypes.data)
            _advance(kind, places[0], places[1], _FLOAT * nb.uintp(count), done // LANES, own[0], own[1])
        if done < count:
            left = count - done
            for gate in range(gates):
                begin, end = gate * count + done, (gate + 1) * count
                one[gate, :left], other[gate, :left] = of_input[row, begin:end], of_state[row, begin:end]
            near[0, :left], far[0, :left] = state[row, done:], memory[row, done:]
            places = nb.uintp(one.ctypes.data), nb.uintp(other.ctypes.data)
            _advance(kind, places[0], places[1], _LINE, 1, nb.uintp(near.ctypes.data), nb.uintp(far.ctypes.data))
            state[row, done:] = near[0, :left]
            if kind == LSTM:
                memory[row, done:] = far[0, :left]


@_compiled
def _lay_out(numbers, gates, panels):
    """Set ``panels`` (G width / LANES, I, LANES) to a matrix (G H, I), where ``numbers`` begins; lanes without a row stay."""
    each, inner = panels.shape[0] // gates, panels.shape[1]
    lines = numbers.size // (gates * inner)
    step = _FLOAT * nb.uintp(inner)
    for gate in range(gates):
        for part in range(each):
            first, count = gate * lines + part * LANES, min(LANES, lines - part * LANES)
            place = nb.uintp(numbers.ctypes.data) + step * nb.uintp(first)
            put_in_lanes(place, step, count, inner, nb.uintp(panels[gate * each + part].ctypes.data))


@_compiled
def _spread_out(numbers, line):
    """Set ``line`` (G, width) to a vector (G H,); numbers without a row stay."""
    count = numbers.size // line.shape[0]
    for gate in range(line.shape[0]):
        line[gate, :count] = numbers[gate * count : (gate + 1) * count]


@_compiled
def _multiply(rows, panels, bias, out):
    """Set ``out`` (r, width) to rows (r, ..) times panels (width / LANES, depth, LANES) plus bias (width,); r in tiles of FEW."""
    depth, count = nb.uintp(panels.shape[1]), panels.shape[0]
    step, width, apart = _FLOAT * nb.uintp(rows.shape[1]), _FLOAT * nb.uintp(out.shape[1]), _LINE * depth
    for row in range(0, rows.shape[0], FEW):
        source, target = nb.uintp(rows[row].ctypes.data), nb.uintp(out[row].ctypes.data)
        panel, shift = nb.uintp(panels.ctypes.data), nb.uintp(bias.ctypes.data)
        for _ in range(count // PANELS):
            few_rows(source, step, depth, panel, apart, shift, target, width)
            panel, shift = panel + nb.uintp(PANELS) * apart, shift + nb.uintp(PANELS) * _LINE
            target += nb.uintp(PANELS) * _LINE
        for _ in range(count % PANELS):
            few_of_one_panel(source, step, depth, panel, apart, shift, target, width)
            panel, shift, target = panel + apart, shift + _LINE, target + _LINE


@_compiled
def own_recurrence(kind, backwards, x, state, centre, noise, columns, scales, out, last):
    """Set ``out`` (S, D, e, T, H) to all states of a layer on x (S or 1, D, e, T, I), and ``last`` (parts, S, D, e, H); float32.

    ``state`` (parts, S, D, e, H): the first one, with an LSTM's memory. ``centre``: weights (G H, I) and (G H, H), and two
    biases (G H,) if it has them. Theirs in the ``noise`` (D, M) begin at ``columns`` (4,); -1: no noise. A member's bits depend
    on no other.
    """
    sides, directions, examples, steps, inner = x.shape
    count, gates = out.shape[4], GATES[kind]
    lines, parts = gates * count, 1 + (kind == LSTM)
    assert out.shape == (scales.size, directions, examples, steps, count) and sides > 0 and scales.size % sides == 0
    assert last.shape == state.shape == (parts, scales.size, directions, examples, count) and noise.shape[0] == directions
    assert inner > 0 and count > 0
    assert x.itemsize == state.itemsize == centre.itemsize == noise.itemsize == out.itemsize == last.itemsize == 4
    assert x.flags.c_contiguous and centre.flags.c_contiguous and noise.flags.c_contiguous and scales.itemsize == 4
    biased = centre.size == lines * (inner + count + 2)
    assert biased or centre.size == lines * (inner + count)
    sizes = (lines * inner, lines * count, lines, lines)
    for part in range(4 if biased else 2):
        assert columns[part] <= noise.shape[1] - sizes[part]
    width, rows = (count + LANES - 1) // LANES * LANES, (examples + FEW - 1) // FEW * FEW
    panels = gates * width // LANES
    # three parts: the centre's, a direction's noise, and a member's; lanes without a row are zeros
    inputs, states = np.zeros((3, panels, inner, LANES), np.float32), np.zeros((3, panels, count, LANES), np.float32)
    biases = np.zeros((3, 2, gates, width), np.float32)
    given = np.zeros((rows, inner), np.float32)
    of_input, of_state = np.empty((rows, gates * width), np.float32), np.empty((rows, gates * width), np.float32)
    held, memory = np.zeros((rows, width), np.float32), np.zeros((rows, width), np.float32)
    _lay_out(centre[: sizes[0]], gates, inputs[0])
    _lay_out(centre[sizes[0] : sizes[0] + sizes[1]], gates, states[0])
    if biased:
        for part in range(2):
            begin = sizes[0] + sizes[1] + part * lines
            _spread_out(centre[begin : begin + lines], biases[0, part])
    for direction in range(directions):
        own = noise[direction]
        if columns[0] >= 0:
            _lay_out(own[columns[0] : columns[0] + sizes[0]], gates, inputs[1])
        if columns[1] >= 0:
            _lay_out(own[columns[1] : columns[1] + sizes[1]], gates, states[1])
        for part in range(2 if biased else 0):
            begin = columns[2 + part]
            if begin >= 0:
                _spread_out(own[begin : begin + lines], biases[1, part])
        for side in range(scales.size):
            displace(inputs[0].reshape(-1), inputs[1].reshape(-1), scales[side], inputs[2].reshape(-1))
            displace(states[0].reshape(-1), states[1].reshape(-1), scales[side], states[2].reshape(-1))
            displace(biases[0].reshape(-1), biases[1].reshape(-1), scales[side], biases[2].reshape(-1))
            held[:examples, :count] = state[0, side, direction]
            if kind == LSTM:
                memory[:examples, :count] = state[1, side, direction]
            for step in range(steps):
                now = steps - 1 - step if backwards else step
                given[:examples] = x[side % sides, direction, :, now]
                _multiply(given, inputs[2], biases[2, 0].reshape(gates * width), of_input)
                _multiply(held, states[2], biases[2, 1].reshape(gates * width), of_state)
                for row in range(examples):
                    one, other = nb.uintp(of_input[row].ctypes.data), nb.uintp(of_state[row].ctypes.data)
                    own_state, own_memory = nb.uintp(held[row].ctypes.data), nb.uintp(memory[row].ctypes.data)
                    _advance(kind, one, other, _FLOAT * nb.uintp(width), width // LANES, own_state, own_memory)
                out[side, direction, :, now] = held[:examples, :count]
            last[0, side, direction] = held[:examples, :count]
            if kind == LSTM:
                last[1, side, direction] = memory[:examples, :count]
