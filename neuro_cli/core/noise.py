"""Addressed standard normal noise: a function of (seed, generation, direction, column), never a stream.

Any [directions, columns] tile can be regenerated at the cost of that tile alone, on any rank, thread or device, with the
same bits. Nothing here holds more than the tile that is asked for, and the last generation's noise where that is small.
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core import philox
from neuro_cli.core.kernels import gpu
from neuro_cli.core.kernels.compiled import noise_kernels as kernels
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.seeds import key_of

log = logging.getLogger(__name__)

# the name of the map from addresses to numbers: peers with another one would compute other models from the same seeds
LAW = "philox4x32-10, quantile table, 1"
# meanings of the fourth word of an address
NOISE_STREAM, ORDER_STREAM, CHOICE_STREAM, SHARED_STREAM, FACTOR_STREAM, TABLE_STREAM, OFFSET_STREAM = range(7)
EPISODE_STREAM, EVALUATION_STREAM, ACTIVATION_STREAM, WEIGHT_STREAM, DISTORTION_STREAM = 7, 8, 9, 11, 12


NEAR, PAGE = 2**20, 2**32  # words of a row up to which all are drawn from its start; words of one address
MOST = 2**18  # numbers of few columns that are remembered from one call to the next
HELD = 2**22  # numbers of a generation (16 MB) that its update reads, in 0.4 to 0.7 of the time in which it draws them


class Tier:
    """Chooses between the definition, which starts at once, and the compiled loops, which are 60 times as fast.

    Loading them takes a second of the processor, as long as the definition needs for 15 million numbers. A process that makes
    few numbers never loads them. Both make the same bits.
    """

    CALL = 8_192  # numbers in the time that the definition takes for a call, however few it makes
    LOADED = 16  # times less for these loops alone, once layers or updates have loaded numba

    def __init__(self, few: int = 4_000_000, large: int = 2**18) -> None:
        self.few, self.large = few, large  # numbers that the definition makes in all, and in one call

    def compiled(self, count: int, calls: int = 1) -> bool:
        """Return whether the compiled loops are to make the next ``calls`` times ``count`` numbers, and from then on."""
        if count > self.large:
            self.few = 0
        self.few -= calls * max(count, self.CALL) * (self.LOADED if "numba" in sys.modules else 1)
        return self.few < 0


tier = Tier()


def random_words(seed: int, generation: int, direction: int, stream: int, count: int) -> np.ndarray:
    """Return ``count`` random words (count,) uint32 of one address."""
    if not tier.compiled(count):
        if count <= philox.LANE:
            return philox.few_words(key_of(seed), generation, np.array([direction]), stream, 0, count)[0].astype(np.uint32)
        return _uint32(philox.words(key_of(seed), generation, torch.tensor([direction], dtype=torch.int64), stream, 0, count)[0])
    out = np.empty((1, count), np.uint32)
    kernels.words_of(*key_of(seed), generation, stream, np.array([direction]), out)
    return out[0]


def words_between(seed: int, generation: int, stream: int, start: int, stop: int) -> np.ndarray:
    """Return random words [start, stop) uint32 of an endless row, whose first words :func:`random_words` gives.

    Word n is word n % PAGE of direction n // PAGE. Beyond word NEAR earlier words are not drawn.
    """
    if stop <= NEAR:
        return random_words(seed, generation, 0, stream, stop)[start:]
    parts = []
    while start < stop:
        page, first = divmod(start, PAGE)
        last = min(PAGE, first + stop - start)
        parts.append(philox.few_words(key_of(seed), generation, np.array([page]), stream, first, last)[0].astype(np.uint32))
        start += last - first
    return np.concatenate(parts) if parts else np.empty(0, np.uint32)


def _uint32(words: Tensor) -> np.ndarray:
    return words.numpy().astype(np.uint32)


def random_permutation(seed: int, epoch: int, size: int, device: torch.device | None = None) -> Tensor:
    """Return a permutation (size,) int64 of range(size), a function of (seed, epoch) alone, sorted on ``device``."""
    halves = random_words(seed, epoch, 0, ORDER_STREAM, 2 * size).reshape(2, size).astype(np.uint64)
    keys = (halves[0] << np.uint64(32)) | halves[1]
    if device is None or device.type == "cpu":
        return torch.from_numpy(np.argsort(keys, kind="stable"))
    signed = (keys ^ np.uint64(1 << 63)).view(np.int64)  # the same order: torch sorts no uint64
    return torch.from_numpy(signed).to(device).sort(stable=True).indices


class Noise:
    """Noise for ``size`` columns on one device. Legend: D directions, n columns, K rows.

    On a CPU compiled loops make the numbers (the first few torch operations, :class:`Tier`), on a GPU Triton kernels;
    elsewhere torch operations do (same bits, more time).
    """

    def __init__(self, seed: int, size: int, device: torch.device, threads: Threads) -> None:
        self.seed, self.size, self.device, self.threads = seed, size, device, threads
        self._key = key_of(seed)
        self._last: tuple[object, np.ndarray] | None = None  # address and numbers of the last tile of few columns
        # rows and the writes to them, by generation and first direction; no lock, for a copy of a population has none
        self._held: dict[tuple[int, int], tuple[Tensor, int]] = {}
        if device.type != "cpu":
            by = "torch operations" if gpu.noise_kernels(device.type) is None else "Triton kernels"
            log.info("noise on %s is made by %s", device, by)

    def draw(
        self,
        generation: int,
        directions: Sequence[int],
        start: int = 0,
        stop: int | None = None,
        stream: int = NOISE_STREAM,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Noise (D, stop - start) of the directions at columns [start, stop) of a stream: float32 rounded to ``dtype``."""
        stop = self.size if stop is None else stop
        if not self._compiled(len(directions) * (stop - start)):
            return self._on_device(generation, directions, stream, start, stop, law=True, dtype=dtype)
        out = np.empty((len(directions), stop - start), np.float32)
        kernels.draw(*self._key, generation, stream, _numbers(directions), start, out)
        return torch.from_numpy(out).to(dtype)

    def hold(self, generation: int, first: int, rows: Tensor) -> None:
        """Hold ``rows`` (D, size) of noise, drawn for directions from ``first`` on, until :meth:`combine` has read them.

        At most HELD numbers, of one generation. Any thread may call this. A write to rows by torch makes them useless.
        """
        if self.device.type != "cpu" or rows.dtype != torch.float32 or rows.is_inference() or not rows.is_contiguous():
            return
        address, held = (generation, first), dict(self._held)
        others = {key: value for key, value in held.items() if key[0] == generation and key != address}
        for key in held.keys() - others.keys():
            self._held.pop(key, None)
        if sum(tensor.numel() for tensor, _ in others.values()) + rows.numel() <= HELD:
            self._held[address] = rows, rows._version

    def draw_whole(self, generation: int, direction: int, stream: int) -> Tensor:
        """Draw the noise (size,) float32 of one direction by all threads side by side."""
        if not self._compiled(self.size):
            return self._on_device(generation, [direction], stream, 0, self.size, law=True)[0]
        out = torch.empty(self.size, dtype=torch.float32)

        def piece(bounds: tuple[int, int]) -> None:
            low, high = bounds
            kernels.draw(*self._key, generation, stream, np.array([direction]), low, out[None, low:high].numpy())

        self.threads.map(piece, _tile_pieces(0, self.size, self.threads.count))
        return out

    def words(self, generation: int, directions: Sequence[int], count: int, stream: int) -> Tensor:
        """Random words (D, count) of the directions at columns [0, count) of a stream: uint32, by torch operations int64."""
        if not self._compiled(len(directions) * count):
            words = self._on_device(generation, directions, stream, 0, count, law=False)
            return torch.from_numpy(_uint32(words)) if self.device.type == "cpu" else words
        out = np.empty((len(directions), count), np.uint32)
        kernels.words_of(*self._key, generation, stream, np.asarray(directions, np.int64), out)
        return torch.from_numpy(out)

    def _compiled(self, count: int, calls: int = 1) -> bool:
        return self.device.type == "cpu" and tier.compiled(count, calls)

    def _on_device(
        self,
        generation: int,
        directions: Sequence[int],
        stream: int,
        start: int,
        stop: int,
        law: bool,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Return normals (``law``) or words of the directions, on the device."""
        if self.device.type == "cpu" and stop - start <= philox.LANE:
            if not law:
                few = philox.few_words(self._key, generation, _numbers(directions), stream, start, stop)
                return torch.from_numpy(few.astype(np.int64))
            return torch.from_numpy(self._few(generation, _numbers(directions), stream, start, stop).copy()).to(dtype)
        if len(directions) == 1:
            directions = range(directions[0], directions[0] + 1)
        if isinstance(directions, range):  # no copy from the host, for which the device would have to wait
            chosen = torch.arange(directions.start, directions.stop, directions.step, device=self.device)
        else:
            chosen = torch.as_tensor(directions, dtype=torch.int64, device=self.device)
        made_by = gpu.noise_kernels(self.device.type)
        if made_by is not None:
            half = law and dtype in (torch.bfloat16, torch.float16)  # rounded by the kernel itself: half the memory to write
            result = made_by.draw(self._key, generation, chosen, stream, start, stop, law, dtype if half else torch.float32)
            return result.to(dtype) if law else result
        words = philox.words(self._key, generation, chosen, stream, start, stop)
        return philox.normals(words).to(dtype) if law else words

    def _few(self, generation: int, directions: np.ndarray, stream: int, start: int, stop: int) -> np.ndarray:
        """Return normals of few columns, to be read only; those of the last call are cached: ask, then tell."""
        address = (generation, stream, start, stop, directions.tobytes())
        last = self._last
        if last is not None and last[0] == address:
            return last[1]
        made = philox.few_normals(philox.few_words(self._key, generation, directions, stream, start, stop))
        if made.size <= MOST:
            self._last = (address, made)
        return made

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        """Write ``base + scale * noise`` to ``plus`` and ``base - scale * noise`` to ``minus``, all (size,) float32.

        ``scale`` is (1,) or (size,). Runs on the calling thread.
        """
        if not self._compiled(self.size):
            step = scale * self._on_device(generation, [direction], NOISE_STREAM, 0, self.size, law=True)[0]
            if plus is not None:
                torch.add(base, step, out=plus)
            if minus is not None:
                torch.sub(base, step, out=minus)
            return
        empty = np.empty(0, np.float32)  # compiled loops take no None
        sides = (empty if side is None else side.numpy() for side in (plus, minus))
        kernels.perturb(*self._key, generation, NOISE_STREAM, direction, base.numpy(), scale.numpy(), *sides)

    def members(
        self, bases: Tensor, parents: np.ndarray, scale: Tensor, generation: int, directions: np.ndarray, signs: np.ndarray,
        out: Tensor,
    ) -> bool:  # fmt: skip
        """Write :func:`kernels.members` where compiled loops are to make the numbers; return whether that was done."""
        if not self._compiled(self.size, calls=len(out)):
            return False
        which = (generation, NOISE_STREAM, directions, signs)
        kernels.members(*self._key, *which, bases.numpy(), parents, scale.numpy(), out.numpy())
        return True

    def rounded(self, values: Tensor, generation: int, stream: int, length: int, start: int, out: Tensor) -> bool:
        """Write :func:`kernels.rounded_columns` of ``values`` (n,) float32 to ``out`` (n,) bfloat16.

        Returns whether that was done: where compiled loops are to make the words.
        """
        if not self._compiled(-(-len(values) // length) * length // 2):
            return False
        numbers = values.view(torch.uint32).numpy(), out.view(torch.uint16).numpy()  # little-endian, as torch's processors are
        kernels.rounded_columns(*self._key, generation, stream, length, start, *numbers)
        return True

    def combine(
        self,
        weights: np.ndarray,
        moments: Sequence[int],
        generation: int,
        directions: Sequence[int],
        start: int = 0,
        stop: int | None = None,
    ) -> Tensor:
        """Return sums (K, stop - start) float32: row k is the sum over d of weights[k, d] * moment_k(noise[d]).

        ``weights`` (K, D) float64; ``moments`` (K,): 1 for eps, 2 for eps**2 - 1. Summed in float64 in the given order, so the
        bits of a column depend on nothing else.
        """
        stop = self.size if stop is None else stop
        wanted = _Sums(np.ascontiguousarray(weights, np.float64), moments, generation, directions, start, stop)
        if not self._compiled(stop - start, calls=len(directions)):
            if self.device.type == "cpu" and stop - start <= philox.LANE:
                return self._combine_few(wanted)
            return (
                self._combine_by_torch(wanted) if gpu.noise_kernels(self.device.type) is None else self._combine_by_triton(wanted)
            )
        out = np.empty((len(weights), stop - start), np.float32)
        chosen, kinds = _numbers(directions), np.asarray(moments, np.int64)
        held = dict(self._held)  # their memory stays while addresses are in use
        rows = _rows_of(held, generation, chosen)

        def piece(bounds: tuple[int, int]) -> None:
            a, b = bounds
            target = out[:, a - start : b - start]
            if rows is not None:
                kernels.combine_rows(*rows, wanted.weights, kinds, a, target)
            else:
                kernels.combine(*self._key, generation, NOISE_STREAM, chosen, wanted.weights, kinds, a, target)

        self.threads.map(piece, _tile_pieces(start, stop, self.threads.count))
        if stop - start == self.size:  # other parts of an update may follow
            self._held.clear()
        return torch.from_numpy(out)

    def _combine_few(self, wanted: "_Sums") -> Tensor:
        weights, moments, generation, directions, start, stop = wanted
        noise = self._few(generation, _numbers(directions), NOISE_STREAM, start, stop).astype(np.float64)
        total, kinds = np.zeros((len(weights), stop - start)), np.asarray(moments)
        for kind in set(moments):
            values, rows = noise if kind == 1 else noise * noise - 1.0, np.flatnonzero(kinds == kind)
            part, chosen = np.zeros((len(rows), stop - start)), weights[rows].T[:, :, None]
            for weight, value in zip(chosen, values, strict=True):  # a fixed order of sums: that of the directions
                part += weight * value
            total[rows] = part
        return torch.from_numpy(total.astype(np.float32))

    def _combine_by_triton(self, wanted: "_Sums") -> Tensor:
        weights, moments, generation, directions, start, stop = wanted
        chosen = torch.as_tensor(directions, dtype=torch.int64, device=self.device)
        where = (self._key, generation, chosen, NOISE_STREAM, start, stop)
        rows = zip(gpu.sent(weights, self.device), moments, strict=True)
        made_by = gpu.noise_kernels(self.device.type)
        return torch.stack([made_by.combine(*where, row, moment == 2) for row, moment in rows])

    def _combine_by_torch(self, wanted: "_Sums") -> Tensor:
        weights, moments, generation, directions, start, stop = wanted
        total = torch.zeros(len(weights), stop - start, dtype=torch.float64, device=self.device)
        for d, direction in enumerate(directions):
            if not weights[:, d].any():
                continue
            noise = self._on_device(generation, [direction], NOISE_STREAM, start, stop, law=True)[0].double()
            for row, moment in enumerate(moments):
                if weights[row, d] != 0.0:
                    total[row] += float(weights[row, d]) * (noise if moment == 1 else noise * noise - 1.0)
        return total.float()


class _Sums(NamedTuple):
    """Weighted sums over directions that :meth:`Noise.combine` is asked for."""

    weights: np.ndarray
    moments: Sequence[int]
    generation: int
    directions: Sequence[int]
    start: int
    stop: int


def _rows_of(
    held: Mapping[tuple[int, int], tuple[Tensor, int]], generation: int, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return an array of rows that :meth:`Noise.hold` got, and offsets (D,) in bytes to those of directions; None unless all are.

    ``held`` has the memory of the rows.
    """
    places, given = np.zeros(len(directions), np.uintp), np.empty((0, 0), np.float32)
    for (made, first), (rows, writes) in held.items():
        if made == generation and rows._version == writes:
            own, given = (directions >= first) & (directions < first + len(rows)), rows.numpy()
            places[own] = given.ctypes.data + given.strides[0] * (directions[own] - first)
    return (given, places - np.uintp(given.ctypes.data)) if len(places) and places.all() else None


def _numbers(directions: Sequence[int]) -> np.ndarray:
    """Return directions as (D,) int64; numpy reads a range number by number."""
    if isinstance(directions, range):
        return np.arange(directions.start, directions.stop, directions.step, dtype=np.int64)
    return np.asarray(directions, np.int64)


def _tile_pieces(start: int, stop: int, count: int) -> list[tuple[int, int]]:
    """Return [start, stop) in ``count`` pieces cut at tile borders, so that no tile is computed twice."""
    first, last = start // philox.TILE, -(-stop // philox.TILE)
    cuts = [first + (last - first) * piece // count for piece in range(count + 1)]
    borders = [min(max(cut * philox.TILE, start), stop) for cut in cuts]
    return [(a, b) for a, b in pairwise(borders) if a < b]
