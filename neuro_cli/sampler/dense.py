"""Dense directions: one number of noise for every parameter."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.chain import Chain, Link
from neuro_cli.core.errors import UserError
from neuro_cli.core.kernels import gpu
from neuro_cli.core.kernels.compiled import blas_kernels, own_layer_kernels, own_recurrence_kernels, row_kernels, tile_kernels
from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.core.noise import Noise
from neuro_cli.core.postponed import WEIGHTS, Postponed
from neuro_cli.core.rows import COMPILED, Geometry, MemberBatch, out_sizes
from neuro_cli.sampler.base import Operator, Perturbation, Sampler
from neuro_cli.sampler.patches import patches

# outputs of a member on a GPU above which one product with its weights costs less than two, by the centre and by the noise
MANY_POINTS = 32
# the same for rows of a member and torch's batched products on a CPU: 16 take 0.6 of the time, 4 0.6 to 1.2, 1 twice as long
POINTS = 8
PATCHES = 2**20  # numbers of patches in memory at a time
OUTPUTS = 6  # least products of a number of a patch, which is copied for them: with 1 to 4 grouped convolutions are faster
# numbers of a generation's noise from which compiled loops serve linear layers of many members: they take a second to load
ENOUGH = 2**20


class DensePerturbation(Perturbation):
    """Noise (D, M), a row for each direction. ``compiled``: linear layers on a CPU by compiled loops; ``at_once``: none waits."""

    def __init__(self, noise: Tensor, rows: MemberBatch, compiled: bool = False, at_once: bool = False) -> None:
        self._noise, self.rows, self._compiled, self._at_once = noise, rows, compiled, at_once
        self.loops = self.chains = compiled  # also in float64, in which a trial compares the order of the chain with the module's

    def drawn(self) -> tuple[Tensor, Callable[[Tensor], Perturbation]]:
        return self._noise, lambda noise: DensePerturbation(noise, self.rows)

    def without_pairs(self) -> "DensePerturbation":
        """Return the perturbation whose directions are the sides of this one, one after the other."""
        noise = torch.cat([scale * self._noise for scale in self.rows.scales])
        return DensePerturbation(noise, MemberBatch([1.0], len(noise), self.rows.examples), self._compiled, self._at_once)

    def changed(self, steps: Callable[[Tensor], Tensor]) -> "DensePerturbation":
        """Return the perturbation with ``steps`` (D, M) of the noise in its place."""
        return DensePerturbation(steps(self._noise), self.rows, self._compiled, self._at_once)

    def layer(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, operator: Operator
    ) -> Tensor | None:
        if x.device.type == "cpu":
            geometry = operator.geometry
            if operator.transposed or not x.dtype == weight.dtype == self._noise.dtype or not x.numel():
                return None
            if geometry is None:
                return self._linear(place, shift, x, weight, bias)
            patched = geometry.groups == 1 and len(weight) >= OUTPUTS
            return self._convolution(place, shift, x, weight, bias, geometry) if patched else None
        return self._on_device(place, shift, x, weight, bias, operator)

    def serves(self, chain: Chain, x: Tensor) -> bool:
        return self._noise.dtype == torch.float32 and chain.serves(x, self.rows)

    def chain(self, chain: Chain, x: Tensor) -> Tensor:
        return chain.answers(x, self._noise, self.rows)

    def postponed(self, x: Tensor, weight: Tensor, lead: Sequence[int], watched: bool) -> Postponed | None:
        served = self._compiled and not self._at_once and x.device.type == "cpu" and x.dtype == weight.dtype == self._noise.dtype
        if not served or not tile_kernels.FASTER or not 0 < weight.numel() <= WEIGHTS:
            return None
        if x.shape[2] < tile_kernels.ROWS and not watched:  # a trial's few examples wait as all of them do
            return None
        scales = self.rows.scales

        def products(x: Tensor, layer: Link, out: Tensor) -> None:
            weight, bias, place, shift, _ = layer
            noise = _OwnNoise(self._noise, place.start, -1 if shift is None else shift.start)
            self._products(x, weight, bias, noise, scales, out)

        return Postponed(x, self._noise, scales, products, lead, watched)

    def recurrence(
        self, kind: int, x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor | None], places: Sequence[Place | None],
        backwards: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...]] | None:  # fmt: skip
        rows, parameters = self.rows, [weight for weight in weights if weight is not None]
        given, count = (x, *state, *parameters, self._noise), len(state[0])
        served = self._compiled and all(part.dtype == torch.float32 and part.device.type == "cpu" for part in given)
        if not served or not x.numel() or count % rows.count or len(x) not in (count, count // len(rows.scales)):
            return None
        points = x.contiguous().view(-1, rows.directions, count // (len(rows.scales) * rows.directions), *x.shape[1:])
        first = torch.stack(tuple(state)).view(len(state), len(rows.scales), *points.shape[1:3], -1)
        out, last = x.new_empty(*first.shape[1:4], *x.shape[1:2], first.shape[-1]), torch.empty_like(first)
        centre = torch.cat([weight.detach().reshape(-1) for weight in parameters])
        columns = np.array([-1 if place is None else place.start for place in places])
        arrays = points.numpy(), first.numpy(), centre.numpy(), self._noise.numpy(), columns, np.array(rows.scales, np.float32)
        own_recurrence_kernels.own_recurrence(kind, backwards, *arrays, out.numpy(), last.numpy())
        return out.view(count, *out.shape[3:]), tuple(last.view(len(state), count, -1))

    def _linear(self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return outputs (n, .., O) of a linear layer on a CPU, by compiled loops or by batched products."""
        rows = self.rows
        read = 1 if x.shape[0] < rows.count else len(rows.scales)  # both sides share their inputs, or each has others
        points = x.reshape(read, rows.directions, -1, x.shape[-1])
        out = x.new_empty(len(rows.scales), *points.shape[1:3], weight.shape[0])
        noise = _OwnNoise(self._noise, place.start, -1 if shift is None else shift.start)
        self._products(points, weight, bias, noise, rows.scales, out)
        return out.view(rows.count, *x.shape[1:-1], weight.shape[0])

    def _convolution(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry
    ) -> Tensor:
        """Return outputs (n, O, ..) of a convolution on a CPU: a linear layer whose rows are patches.

        A grouped convolution, a group for each direction, needs another one for the centre: twice the products.
        """
        rows, dims = self.rows, x.dim()
        kernel = (1,) * (dims - weight.dim()) + weight.shape[2:]
        sizes, taps, pixels = out_sizes(x.shape[2:], kernel, geometry), range(2, dims), range(dims, 2 * dims - 2)
        matrix = weight.movedim(1, -1).flatten(1)
        near = x.contiguous(memory_format=torch.channels_last if dims == 4 else torch.channels_last_3d)
        images = near.unflatten(0, (-1, rows.directions, rows.examples))
        out = x.new_empty(len(rows.scales), rows.directions, rows.examples * math.prod(sizes), len(matrix))
        some = max(1, PATCHES // (out.shape[2] * matrix.shape[1]))
        for low in range(0, rows.directions, some):
            noise = _OwnNoise(self._noise[low : low + some], place.start, -1 if shift is None else shift.start)
            if not _taps_first(place):  # weights are fewer than patches
                noise = noise.with_matrices(_shaped(noise.numbers[:, place.start : place.stop], place).movedim(2, -1))
            for side, scale in enumerate(rows.scales):
                if side < len(images):
                    parts = patches(images[side, low : low + some].flatten(0, 1), kernel, geometry)
                    points = parts.permute(0, *pixels, *taps, 1).reshape(1, -1, out.shape[2], matrix.shape[1])
                self._products(points, matrix, bias, noise, (scale,), out[side : side + 1, low : low + some])
        result = out.view(rows.count, *sizes, len(matrix)).movedim(-1, 1)
        return result if place.channels_last else result.contiguous()

    def _products(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, noise: "_OwnNoise", scales: Sequence[float], out: Tensor
    ) -> None:
        """Write outputs (S, D, m, O) for x (S or 1, D, m, I) and a matrix (O, I) to ``out``."""
        numbers, first, shift = noise
        if self._compiled and numbers.dtype == torch.float32 and x.shape[-1]:
            vector = weight.new_empty(0) if bias is None else bias
            given = (part.contiguous().numpy() for part in (x, weight, vector, numbers))
            own_layer_kernels.dense_layer(*given, first, shift, np.array(scales, np.float32), out.numpy())
            return
        steps = numbers[:, first : first + weight.numel()].view(-1, *weight.shape)
        vectors = None if shift < 0 else numbers[:, None, shift : shift + len(weight)]
        if x.shape[2] < POINTS:
            _by_two_products(x, weight, bias, steps, vectors, scales, out)
            return
        for side, scale in enumerate(scales):
            own, points = torch.add(weight, steps, alpha=scale).mT, x[side % len(x)]
            if bias is None:
                torch.bmm(points, own, out=out[side])
            else:
                shifted = bias if vectors is None else torch.add(bias, vectors, alpha=scale)
                torch.baddbmm(shifted, points, own, out=out[side])

    def _on_device(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, operator: Operator
    ) -> Tensor | None:
        """Return outputs of a layer by kernels of a GPU, with weights of each member."""
        kernels, geometry, rows = gpu.layer_kernels(x), operator.geometry, self.rows
        channels = x.shape[operator.channel]
        if kernels is None or operator.transposed or x[0].numel() // channels * rows.examples < MANY_POINTS:
            return None
        if geometry is not None and geometry.groups > 1:
            return None
        noise = self._noise[:, place.start : place.stop]
        centre = (weight.permute(0, 2, 3, 1) if _taps_first(place) else weight).reshape(-1)
        result = torch.empty(len(rows.scales), *noise.shape, dtype=weight.dtype, device=weight.device)
        for side, scale in zip(result, rows.scales, strict=True):
            torch.add(centre, noise, alpha=scale, out=side)
        vectors = None if shift is None else self.vectors(shift)
        shape = rows.directions, rows.examples
        outputs: Tensor = kernels.layer(
            x, _shaped(result.flatten(0, 1), place), None, bias, vectors, rows.scales, shape, geometry
        )
        return outputs

    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        rows, weights = self.rows, self.values(place)
        sides, directions, examples = len(rows.scales), rows.directions, rows.examples
        if operator.geometry is None:
            split = x.reshape(sides, directions, -1, x.shape[-1]).transpose(0, 1).reshape(directions, -1, x.shape[-1])
            weights = weights.flatten(2)
            result = torch.bmm(split, weights if operator.transposed else weights.transpose(1, 2))
            result = result.view(directions, sides, -1, result.shape[-1]).transpose(0, 1).reshape(*x.shape[:-1], -1)
            return rows.add(y, result)
        # a direction is a group of channels in one grouped convolution
        split = x.reshape(sides, directions, examples, *x.shape[1:]).transpose(1, 2)
        merged = split.reshape(sides * examples, -1, *x.shape[2:])
        result = operator(merged, weights.flatten(0, 1), directions * operator.geometry.groups)
        result = result.view(sides, examples, directions, -1, *result.shape[2:]).transpose(1, 2)
        return rows.add(y, result.reshape(y.shape))

    def vectors(self, place: Place) -> Tensor:
        return self._noise[:, place.start : place.stop]

    def lines(self, place: Place, index: Tensor) -> Tensor:
        return self.values(place)[torch.arange(len(index), device=index.device)[:, None], index]

    def add_lines(self, place: Place, index: Tensor, y: Tensor) -> Tensor:
        if (
            y.device.type != "cpu"
            or not y.dtype == self._noise.dtype in COMPILED
            or len(place.shape) != 2
            or not y.is_contiguous()
        ):
            return super().add_lines(place, index, y)
        scales, given = np.array(self.rows.scales, y.numpy().dtype), index.to(torch.int64).contiguous()
        arrays = y.numpy(), self._noise.numpy(), place.start, given.numpy(), place.shape[0], scales
        if not row_kernels.add_lines(*arrays):
            raise IndexError(f"an index beyond the {place.shape[0]} rows of {place.name}")
        return y

    def values(self, place: Place) -> Tensor:
        if self._noise.device.type != "cpu" or not _taps_first(place):  # views: a stack copies thousands of directions one by one
            return _shaped(self._noise[:, place.start : place.stop], place)
        return torch.stack([place.view(row) for row in self._noise])


class _OwnNoise(NamedTuple):
    """Noise ``numbers`` (D, ..), and the columns at which a matrix and its bias begin; -1 for a bias without noise."""

    numbers: Tensor
    weight: int
    bias: int

    def with_matrices(self, matrices: Tensor) -> "_OwnNoise":
        """Return the noise with ``matrices`` (D, O, ..) in place of the weight's."""
        parts, outputs = [matrices.flatten(1)], matrices.shape[1]
        if self.bias >= 0:
            parts.append(self.numbers[:, self.bias : self.bias + outputs])
        return _OwnNoise(torch.cat(parts, 1), 0, parts[0].shape[1] if self.bias >= 0 else -1)


def _by_two_products(
    x: Tensor, weight: Tensor, bias: Tensor | None, noise: Tensor, vectors: Tensor | None, scales: Sequence[float], out: Tensor
) -> None:
    """Write outputs (S, D, m, O) for x (S or 1, D, m, I) to ``out``: product by the centre plus product by the noise.

    The noise (D, O, I), with that of the bias (D, 1, O), is read once for both sides of a direction.
    """
    centre, points = F.linear(x, weight, bias), x.transpose(0, 1).flatten(1, 2)
    step = torch.bmm(points, noise.mT) if vectors is None else torch.baddbmm(vectors, points, noise.mT)
    steps = step.unflatten(1, (len(x), -1))
    for side, scale in enumerate(scales):
        torch.add(centre[side % len(x)], steps[:, side % len(x)], alpha=scale, out=out[side])


def _taps_first(place: Place) -> bool:
    """Return whether the inputs of a tap are neighbours in the flat vector."""
    return len(place.shape) == 4 and place.channels_last


def _shaped(piece: Tensor, place: Place) -> Tensor:
    """Return rows (B, values) of a flat vector as parameters ``(B, *shape)``, without a copy."""
    if not _taps_first(place):
        return piece.view(len(piece), *place.shape)  # a scalar parameter has no shape to unflatten
    out, inner, height, width = place.shape
    return piece.unflatten(1, (out, height, width, inner)).permute(0, 1, 4, 2, 3)


class Dense(Sampler):
    """Sampler of dense directions: a subclass needs :meth:`draw` alone.

    The other methods take one direction at a time; a subclass with compiled loops overrides them.
    """

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        # a function of the settings alone, as loops round differently from torch's operations
        self.compiled = noise.device.type == "cpu" and self.directions * noise.size >= ENOUGH

    @abstractmethod
    def draw(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        """Draw the noise (count, M) of directions [first, first + count)."""

    def _drawn(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        """Return what :meth:`draw` gives. Raises UserError for another shape."""
        noise = self.draw(generation, first, count, dtype)
        if noise.shape != (count, self.noise.size):
            needed = f"needed is ({count}, {self.noise.size}): directions, parameters"
            raise UserError(f"{type(self).__name__}.draw: it gave a tensor of shape {tuple(noise.shape)}; {needed}")
        return noise

    def explicit(self, generation: int, direction: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return self._drawn(generation, direction, 1, dtype)[0]

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        noise = self.explicit(generation, direction)
        if plus is not None:
            torch.addcmul(base, noise, scale, out=plus)
        if minus is not None:
            torch.addcmul(base, noise, scale, value=-1, out=minus)

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        # float64 and the order of the directions give a column the same bits in every slice
        total = torch.zeros(len(weights), stop - start, dtype=torch.float64, device=self.noise.device)
        for column, direction in enumerate(directions):
            noise = self.explicit(generation, direction)[start:stop].double()
            for row, moment in enumerate(moments):
                total[row] += float(weights[row, column]) * (noise if moment == 1 else noise * noise - 1.0)
        return total.float()

    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        return self.perturbed_by(self._drawn(generation, first, rows.directions, dtype), rows)

    def perturbed_by(self, noise: Tensor, rows: MemberBatch) -> DensePerturbation:
        """Return the dense perturbation of ``noise`` (D, M)."""
        return DensePerturbation(noise, rows, self.compiled and blas_kernels.SERVES, self.at_once)
