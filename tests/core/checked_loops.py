"""Compiled loops watched: the same source run as Python that refuses every access outside of an array, or compiled with guards.

In Python each array refuses an index that is negative or too large, and each address must lie in an array that the loops were
given or made. Compiled, every argument lies between bytes that read as no numbers and must not change.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numba.core.dispatcher import Dispatcher
from scipy.special import erf

from neuro_cli.core.kernels import activations, attention, blas, compiled, lanes, own_recurrence, tiles, vectors, winograd
from neuro_cli.core.kernels import numba_products as products
from neuro_cli.core.lazy import LazyModule
from neuro_cli.core.quantile import BASE, SLOPE
from neuro_cli.task.reinforcement import episodes, policies

MARGIN = 256  # bytes before and behind an argument, a multiple of a line of the cache
LAZY = [value for value in (*vars(compiled).values(), policies.kernels, episodes.kernels) if isinstance(value, LazyModule)]
Change = Callable[[Dispatcher], Callable[..., Any]]


def bounds(array: np.ndarray) -> tuple[int, int]:
    """First address of an array and that behind its last."""
    first = array.ctypes.data
    return np.lib.array_utils.byte_bounds(array) if array.size else (first, first)


class Checked(np.ndarray):
    """Array that refuses negative indices and bounds, which numpy counts from behind."""

    def _refuse(self, key: Any) -> None:
        for part in key if isinstance(key, tuple) else (key,):
            bounds = (part.start, part.stop) if isinstance(part, slice) else (part,)
            if any(isinstance(bound, int | np.integer) and bound < 0 for bound in bounds):
                raise IndexError(f"index {key} counts from behind")

    def __getitem__(self, key: Any) -> Any:
        self._refuse(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse(key)
        super().__setitem__(key, value)


class Memory:
    """Arrays that loops may touch by address."""

    def __init__(self) -> None:
        self._known: list[tuple[int, int, np.ndarray]] = []

    def forget(self) -> None:
        self._known.clear()

    def known(self, array: np.ndarray) -> Checked:
        low, high = bounds(array)
        self._known.append((low, high, array))  # kept, so that nothing else comes to lie there
        return array.view(Checked)

    def at(self, address: Any, count: int, dtype: Any) -> np.ndarray:
        """``count`` numbers at an address. Raises IndexError where they are in none of the arrays."""
        address, size = int(address), count * np.dtype(dtype).itemsize
        if not any(low <= address and address + size <= high for low, high, _ in self._known):
            raise IndexError(f"{size} bytes at an address outside of all arrays")
        if not count:
            return np.empty(0, dtype)
        return np.frombuffer((ctypes.c_char * size).from_address(address), dtype)


def _signed(memory: Memory, lanes: int, source: Any, bits: Any) -> np.ndarray:
    signs = 1 - 2 * ((int(bits) >> np.arange(lanes)) & 1)
    return memory.at(source, lanes, np.float32) * signs.astype(np.float32)


def _single(words: Any) -> Any:
    """Float32 values of bfloat16 numbers."""
    return (np.asarray(words).astype(np.uint32) << np.uint32(16)).view(np.float32)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _addressed(memory: Memory) -> dict[Any, Callable[..., Any]]:
    """What stands for the functions that load and store by address."""
    single, word = np.float32, np.uint16

    def flipped(lanes: int) -> Callable[..., None]:
        def law(source: Any, bits: Any, target: Any) -> None:
            memory.at(target, lanes, single)[:] = _signed(memory, lanes, source, bits)

        return law

    def added(lanes: int) -> Callable[..., None]:
        def law(source: Any, bits: Any, scale: Any, target: Any) -> None:
            memory.at(target, lanes, single)[:] += single(scale) * _signed(memory, lanes, source, bits)

        return law

    def normals(source: Any, target: Any, table: Any) -> None:
        words = memory.at(source, vectors.LANES, np.uint32)
        bits = np.maximum(words & 0x7FFFFFFF, 1).astype(single).view(np.uint32)
        segment = (bits >> 17).astype(np.int64) - (127 << 6)
        assert BASE.size > segment.max() and segment.min() >= 0  # noqa: PT018
        size = BASE[segment] + ((bits >> 5) & 4095).astype(single) * SLOPE[segment]
        memory.at(target, vectors.LANES, single)[:] = (size.view(np.uint32) ^ (words & 0x80000000)).view(single)

    def add_tile(left: Any, right: Any, groups: Any, out: Any, width: Any) -> None:
        lines = [memory.at(int(out) + 4 * row * int(width), products.COLUMNS, single) for row in range(products.ROWS)]
        for group in range(int(groups)):
            size = products.ROWS * products.GROUP, products.GROUP * products.COLUMNS
            a, b = (memory.at(int(at) + 4 * group * n, n, single) for at, n in zip((left, right), size, strict=True))
            columns = b.reshape(products.GROUP, products.COLUMNS)
            for line, factors in zip(lines, a.reshape(products.ROWS, products.GROUP), strict=True):
                group_sum = factors[0] * columns[0]
                for factor, column in zip(factors[1:], columns[1:], strict=True):
                    group_sum = group_sum + factor * column
                line += group_sum

    def sgemm(orders: Any, sizes: Any, a: Any, b: Any, beta: Any, c: Any) -> None:
        m, n, k = (int(size) for size in sizes)

        def matrix(place: tuple[Any, Any], lines: int, length: int) -> np.ndarray:
            """Fortran's columns of ``length`` numbers as lines; BLAS takes no distance between them below their length or 1."""
            address, step = (int(part) for part in place)
            assert step >= max(1, length)
            whole = memory.at(address, (lines - 1) * step + length if lines and length else 0, single)
            return np.lib.stride_tricks.as_strided(whole, (lines, length), (4 * step, 4))

        left = matrix(a, m, k) if orders[0] == ord("T") else matrix(a, k, m).T
        right = matrix(b, k, n) if orders[1] == ord("T") else matrix(b, n, k).T
        out = matrix(c, n, m)
        out[:] = (left @ right).T + (single(beta) * out if beta else 0)

    def rounded(lanes: int) -> Callable[..., None]:
        def law(source: Any, target: Any) -> None:
            bits = memory.at(source, lanes, np.uint32).astype(np.uint64)
            nearest = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
            memory.at(target, lanes, word)[:] = np.where(np.isnan(memory.at(source, lanes, single)), 0x7FC0, nearest)

        return law

    def spread(lines: Any, columns: Any, source: Any, row: Any, pixel: Any, target: Any, step: Any) -> None:
        high, broad = (winograd.points(len(taps)) for taps in (lines, columns))
        for i in range(high * broad):
            memory.at(source + i // broad * row + i % broad * pixel, winograd.LANES, single)
            memory.at(target + i * step, winograd.LANES, single)[:] = 0

    def products_of_points(spread: Any, filters: Any, target: Any, channels: Any) -> None:
        memory.at(spread, -(-channels // winograd.LANES) * winograd.TILES * winograd.LANES, single)
        memory.at(filters, channels * winograd.PAIR, single)
        memory.at(target, winograd.TILES * winograd.PAIR, single)[:] = 0

    def gather(lines: Any, columns: Any, source: Any, step: Any, bias: Any, target: Any, *apart: Any) -> None:
        for i in range(winograd.points(len(lines)) * winograd.points(len(columns))):
            memory.at(source + i * step, winograd.LANES, single)
        for i in range(winograd.SIDES[len(lines)]):
            for j in range(winograd.SIDES[len(columns)]):
                made = memory.at(target + i * apart[0] + j * apart[1], winograd.LANES, single)
                made[:] = memory.at(bias, winograd.LANES, single)

    def widened(number: Any) -> Any:
        return _single(np.array([number], word))[0]

    def lines(address: Any, count: Any) -> np.ndarray:
        return memory.at(address, int(count) * vectors.LANES, single).reshape(-1, vectors.LANES)

    def numbers(address: Any, step: Any, count: int, length: Any) -> np.ndarray:
        return np.stack([memory.at(int(address) + int(step) * row, int(length), single) for row in range(count)])

    def to_lanes(source: Any, step: Any, target: Any) -> None:
        lines(target, lanes.COLUMNS)[:] = numbers(source, step, vectors.LANES, lanes.COLUMNS).T

    def from_lanes(source: Any, target: Any, step: Any) -> None:
        for row, line in enumerate(lines(source, lanes.COLUMNS).T):
            memory.at(int(target) + int(step) * row, lanes.COLUMNS, single)[:] = line

    def products_of(count: int) -> Callable[..., None]:
        def law(rows: Any, depth: Any, matrix: Any, step: Any, out: Any) -> None:
            lines(out, count)[:] = numbers(matrix, step, count, depth) @ lines(rows, depth)

        return law

    def tile(panels: int, rows: int = tiles.ROWS) -> Callable[..., None]:
        def law(x: Any, step: Any, depth: Any, panel: Any, apart: Any, bias: Any, out: Any, width: Any) -> None:
            factors, line = numbers(x, step, rows, depth), 4 * vectors.LANES
            for part in range(panels):
                shift = memory.at(int(bias) + part * line, vectors.LANES, single)
                made = factors @ lines(int(panel) + part * int(apart), depth) + shift
                for row in range(rows):
                    memory.at(int(out) + row * int(width) + part * line, vectors.LANES, single)[:] = made[row]

        return law

    def shares(scores: Any, count: Any, sums: Any) -> None:
        given = lines(scores, count)
        given[:] = np.exp(given - given.max(0))
        memory.at(sums, vectors.LANES, single)[:] = given.sum(0)

    def activation(law: Callable[[np.ndarray], np.ndarray]) -> Callable[..., None]:
        def applied(place: Any, bias: Any) -> None:
            values = memory.at(place, vectors.LANES, single)
            values[:] = law(values + memory.at(bias, 1, single))

        return applied

    def gelu(x: np.ndarray) -> np.ndarray:
        return x * (0.5 + 0.5 * erf(x / np.sqrt(2)))

    def cell(law: Callable[..., tuple[np.ndarray, ...]], gates: int) -> Callable[..., None]:
        def replaced(of_input: Any, of_state: Any, apart: Any, *state: Any) -> None:
            parts = (numbers(place, apart, gates, vectors.LANES) for place in (of_input, of_state))
            places = [memory.at(place, vectors.LANES, single) for place in state]
            for place, new in zip(places, law(*parts, *places), strict=False):
                place[:] = new

        return replaced

    def gru(one: np.ndarray, other: np.ndarray, state: np.ndarray, _: Any) -> tuple[np.ndarray]:
        reset, held = (_sigmoid(one[gate] + other[gate]) for gate in range(2))
        return ((1 - held) * np.tanh(one[2] + reset * other[2]) + held * state,)

    def lstm(one: np.ndarray, other: np.ndarray, _: Any, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        taken, kept, new, shown = one + other
        memory = _sigmoid(kept) * memory + _sigmoid(taken) * np.tanh(new)
        return _sigmoid(shown) * np.tanh(memory), memory

    def means(part: int) -> Callable[..., None]:
        def law(given: Any, count: Any, sums: Any, value: Any, step: Any, out: Any) -> None:
            total = numbers(value, step, int(count), part).T @ lines(given, count)
            lines(out, part)[:] = total / memory.at(sums, vectors.LANES, single)

        return law

    return {
        lanes.to_lanes: to_lanes, lanes.from_lanes: from_lanes, lanes.some_products: products_of(lanes.LINES),
        lanes.one_product: products_of(1), tiles.whole_tile: tile(tiles.PANELS), tiles.one_panel: tile(1),
        attention.weights: shares, attention.some_means: means(attention.PART),
        attention.one_mean: means(1),
        activations.shift_lanes: activation(lambda x: x), activations.tanh_of_lanes: activation(np.tanh),
        activations.relu_of_lanes: activation(lambda x: np.maximum(x, 0)), activations.gelu_of_lanes: activation(gelu),
        own_recurrence.few_rows: tile(own_recurrence.PANELS, own_recurrence.FEW),
        own_recurrence.few_of_one_panel: tile(1, own_recurrence.FEW),
        own_recurrence.gru_cell: cell(gru, 3), own_recurrence.lstm_cell: cell(lstm, 4),
        own_recurrence.tanh_cell: cell(lambda one, other, *_: (np.tanh(one[0] + other[0]),), 1),
        own_recurrence.relu_cell: cell(lambda one, other, *_: (np.maximum(one[0] + other[0], 0),), 1),
        vectors.widened: widened, vectors.flipped: flipped(vectors.LANES), vectors.flipped_one: flipped(1),
        vectors.added_flipped: added(vectors.LANES), vectors.added_flipped_one: added(1),
        vectors.rounded: rounded(vectors.LANES), vectors.rounded_one: rounded(1),
        vectors.normals_by_gathers: normals, vectors.normals_by_loads: normals,
        products.add_tile: add_tile, blas.sgemm: sgemm,
        winograd._spread: spread, winograd._product: products_of_points, winograd._gather: gather,
    }  # fmt: skip


def _namespace(memory: Memory) -> Any:
    """numpy whose new arrays are known to ``memory``; what is not filled is filled with what is no number."""

    def empty(shape: Any, dtype: Any = float) -> Checked:
        made = np.zeros(shape, dtype)
        made.view(np.uint8).reshape(-1)[:] = 0xFF
        return memory.known(made)

    def made(make: Callable[..., np.ndarray]) -> Callable[..., Checked]:
        return lambda *given: memory.known(make(*given))

    own = {name: made(getattr(np, name)) for name in ("zeros", "ones", "full")}
    own |= {"empty": empty, "empty_like": lambda like: empty(like.shape, like.dtype)}
    return SimpleNamespace(**{name: getattr(np, name) for name in dir(np)} | own)


def _python(memory: Memory, constants: dict[str, Any]) -> Change:
    """What makes Python of compiled loops, and of those that they call; ``constants`` stand for numbers of their modules."""
    made: dict[int, Any] = {}
    addressed, numpy = _addressed(memory), _namespace(memory)
    names = [(key, part) for key, part in vars(vectors).items() if getattr(part, "__hash__", None)]

    def rebuilt(loop: Dispatcher) -> Callable[..., Any]:
        if id(loop) not in made:
            own = dict(vars(import_module(loop.py_func.__module__)))
            made[id(loop)] = FunctionType(loop.py_func.__code__, own, loop.py_func.__name__, loop.py_func.__defaults__)
            for name, value in list(own.items()):
                if isinstance(value, Dispatcher):
                    own[name] = rebuilt(value)
                elif type(value).__module__.startswith("numba.") and value in addressed:
                    own[name] = addressed[value]
                elif value is vectors:
                    own[name] = SimpleNamespace(**{key: addressed.get(part, part) for key, part in names})
            own.update(np=numpy, **constants)
        return made[id(loop)]

    def change(loop: Dispatcher) -> Callable[..., Any]:
        python = rebuilt(loop)

        def call(*given: Any) -> Any:
            memory.forget()
            with np.errstate(all="ignore"):  # words overflow, as they should
                return python(*_changed(given, memory.known))

        return call

    return change


def _changed(value: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """``value`` with its arrays changed, also those in tuples."""
    if isinstance(value, tuple):
        return tuple(_changed(part, change) for part in value)
    return change(value) if isinstance(value, np.ndarray) else value


def _guarded(loop: Dispatcher) -> Callable[..., Any]:
    """A compiled loop whose arguments lie between guards."""

    def call(*given: Any) -> Any:
        placed: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []

        def place(array: np.ndarray) -> np.ndarray:
            low, high = bounds(array)
            room = np.full(high - low + 2 * MARGIN + 64, 0xFF, np.uint8)
            first = -room.ctypes.data % 64 + MARGIN + low % 64  # the same distance from a line of the cache as before
            inner = np.ndarray(array.shape, array.dtype, room.data, first, array.strides)
            own = np.zeros(room.size, np.bool_)
            np.ndarray(array.shape, f"V{array.itemsize}", own.data, first, array.strides)[...] = b"\1" * array.itemsize
            inner[...] = array
            placed.append((array, inner, room, own))
            return inner

        outcome = loop(*_changed(given, place))
        for array, inner, room, own in placed:
            assert (room[~own] == 0xFF).all(), f"{loop.py_func.__name__} wrote outside of an argument"
            if 0 not in array.strides:
                array[...] = inner
        return outcome

    return call


def watched(module: ModuleType, change: Change) -> SimpleNamespace:
    """The names of ``module`` with its compiled loops changed, also where its functions call them."""
    own = dict(vars(module))
    for name, value in list(own.items()):
        if isinstance(value, Dispatcher):
            own[name] = change(value)
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
            own[name] = FunctionType(value.__code__, own, name, value.__defaults__)
    return SimpleNamespace(**own)


@contextmanager
def watching(how: str, **constants: Any) -> Iterator[Callable[[ModuleType], SimpleNamespace]]:
    """All compiled loops that Python calls run as ``python`` or ``guarded``; gives the names of a module so changed."""
    change = _python(Memory(), constants) if how == "python" else _guarded
    with ExitStack() as stack:
        for lazy in LAZY:
            names = watched(import_module(lazy.__name__), change)
            stack.enter_context(mock.patch.dict(lazy.__dict__, {"_module": names}))
        yield lambda module: watched(module, change)
